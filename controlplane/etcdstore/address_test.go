package etcdstore

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

func TestAddressIsChecked(t *testing.T) {
	for says, a := range map[string]Address{
		"endpoints: is missing":            {},
		`"" is empty`:                      {Endpoints: SplitEndpoints("a:1,")},
		`"host" has no port`:               {Endpoints: []string{"host"}},
		`"https://host" has no host`:       {Endpoints: []string{"https://host"}},
		`"ftp://host:1" is not an address`: {Endpoints: []string{"ftp://host:1"}},
		"is not encrypted":                 {Endpoints: []string{"http://a:1"}, CACert: "ca.pem"},
		"only one of them":                 {Endpoints: []string{"https://a:1"}, Key: "key.pem"},
		"readable files":                   {Endpoints: []string{"https://a:1"}, CACert: "/nowhere/ca.pem"},
	} {
		if _, err := a.Config(); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", a, err, says)
		}
	}
}

func TestAddressIsUsed(t *testing.T) {
	for endpoint, secure := range map[string]bool{
		"127.0.0.1:2379": false, "http://[::1]:2379": false, "unix:///run/etcd.sock": false, "https://etcd:2379": true,
	} {
		cfg, err := Address{Endpoints: []string{endpoint}}.Config()
		if err != nil || (cfg.TLS != nil) != secure || !slices.Equal(cfg.Endpoints, []string{endpoint}) {
			t.Errorf("%s: %+v, %v", endpoint, cfg, err)
		}
	}
}

func TestAddressFromEnvFillsIn(t *testing.T) {
	env := map[string]string{EnvEndpoints: "a:1,b:2", EnvCACert: "ca", EnvCert: "cert", EnvKey: "key", EnvServerName: "name"}
	got := Address{Cert: "mine", Key: "my key"}.Or(AddressFromEnv(func(name string) string { return env[name] }))
	if !slices.Equal(got.Endpoints, []string{"a:1", "b:2"}) || got.CACert != "ca" || got.Cert != "mine" || got.Key != "my key" || got.ServerName != "name" {
		t.Errorf("%+v", got)
	}
}

// TestServerNameIsAskedFor checks the name that a client requests from a server whose certificate
// is for another name.
func TestServerNameIsAskedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = tls.Server(conn, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			asked <- hello.ServerName
			return nil, errors.New("enough")
		}}).Handshake()
	}()
	cfg, err := Address{Endpoints: []string{"https://" + l.Addr().String()}, ServerName: "etcd.example"}.Config()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), cfg); !types.Is(err, types.Unavailable) {
		t.Errorf("it was reached: %v", err)
	}
	if got := <-asked; got != "etcd.example" {
		t.Errorf("asked for %q", got)
	}
}

func TestRemedyOfWhatTLSSays(t *testing.T) {
	for says, want := range map[string]string{
		"error reading server preface: remote error: tls: certificate required":                                             "cert",
		"authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority": "cacert",
		"x509: certificate is valid for etcd.example, not other.example":                                                    "servername",
		"x509: cannot validate certificate for 10.0.0.1 because it doesn't contain any IP SANs":                             "servername",
		"authentication handshake failed: tls: first record does not look like a TLS handshake":                             "http://",
		"write tcp 10.0.0.2:1->10.0.0.1:2379: write: broken pipe":                                                           "cert",
		"error reading server preface: EOF":                                                                                 "https://",
	} {
		if got := Remedy(errors.New(says)); !strings.Contains(got.String(), want) {
			t.Errorf("%s: %q, want %s", says, got, want)
		}
	}
	if got := Remedy(errors.New("connect: connection refused")); !got.IsZero() {
		t.Errorf("of other errors it says %q", got)
	}
}

// TestTokenIsPrivate: a token is sent encrypted, or within this machine.
func TestTokenIsPrivate(t *testing.T) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	for _, c := range []struct {
		endpoint string
		tls      *tls.Config
		sent     bool
	}{
		{"https://example.com:7421", secure, true}, {"unix:///run/api.sock", nil, true}, {"http://127.0.0.1:7421", nil, true}, {"127.0.0.1:7421", nil, true},
		{"http://localhost:7421", nil, true}, {"http://[::1]:7421", nil, true},
		{"http://example.com:7421", nil, false}, {"example.com:7421", nil, false}, {"10.0.0.1:7421", nil, false}, {"http://127.0.0.1.example.com:7421", nil, false},
	} {
		s, err := Open(Config{Endpoints: []string{c.endpoint}, TLS: c.tls, Token: "secret"})
		if (err == nil) != c.sent || err != nil && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "write https://") || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", c.endpoint, err)
		}
		if s != nil {
			_ = s.Close()
		}
	}
}
