package cli_test

import (
	"net"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/escher-sched/escher/api/certs"
)

// apiAt is where the HTTP API of a test cluster listens for users with tokens.
type apiAt struct {
	addresses []string
	cert, key string
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
	return at, l.Close()
}
