package cli_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/api/oidc/oidctest"
)

// apiAt is where the HTTP API of a test cluster listens for users with tokens.
type apiAt struct {
	addresses []string
	cert, key string
	// oidc is the issuer of users; none for most scripts.
	oidc oidc.Config
}

// newAPIAt makes a certificate, chooses a port, and sets SERVER and CA for the script.
func newAPIAt(env *testscript.Env, dir string) (apiAt, error) {
	authority, err := certs.Open(filepath.Join(dir, "pki"), time.Now())
	if err != nil {
		return apiAt{}, err
	}
	at := apiAt{cert: filepath.Join(dir, "api.pem"), key: filepath.Join(dir, "api.key")}
	if err := authority.Server(dir, "api.pem", "api.key", []string{"127.0.0.1"}, time.Now(), time.Hour); err != nil {
		return apiAt{}, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return apiAt{}, err
	}
	at.addresses = []string{"https://" + l.Addr().String()}
	env.Setenv("SERVER", at.addresses[0])
	env.Setenv("CA", filepath.Join(dir, "pki", certs.CAFile))
	if strings.HasSuffix(env.WorkDir, "login") {
		i := oidctest.Start(env.T().(testing.TB), time.Now)
		env.Values[issuerKey{}] = i
		env.Setenv("ISSUER", i.URL)
		env.Setenv("ISSUER_CA", i.CA)
		at.oidc = oidc.Config{Issuer: i.URL, ClientID: oidctest.ClientID, UsernameClaim: "email", GroupsClaim: "groups", Prefix: "oidc:", CA: i.CA}
	}
	return at, l.Close()
}

// issuerKey is that of the issuer in the values of a script.
type issuerKey struct{}

// issuer HOW... makes the issuer behave in some ways, and otherwise as at first.
func issuer(ts *testscript.TestScript, _ bool, args []string) {
	ts.Value(issuerKey{}).(*oidctest.Issuer).Set(func(s *oidctest.State) {
		*s = oidctest.State{Life: time.Hour, Claims: map[string]any{"groups": []string{"ml"}}}
		for _, how := range args {
			switch how {
			case "brief": // each command renews
				s.Life = 30 * time.Second
			case "ended":
				s.Ended = true
			case "denied":
				s.Denied = true
			case "down":
				s.Down = true
			case "nodevice":
				s.NoDevice = true
			case "unverified":
				s.Claims["email_verified"] = false
			case "hostile":
				s.Address = "https://x/\x1b]0;evil"
			default:
				ts.Fatalf("issuer %s", how)
			}
		}
	})
}
