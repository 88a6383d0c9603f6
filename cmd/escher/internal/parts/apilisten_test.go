package parts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/types"
)

// TestAPIListen listens only on loopback without a certificate, unless a flag allows more.
func TestAPIListen(t *testing.T) {
	cert, key := certificate(t)
	for _, c := range []struct {
		name          string
		cfg           AgentConfig
		address       string
		local         bool
		advice, wrong string
	}{
		{"nothing said", AgentConfig{}, "127.0.0.1:7421", true, "on loopback alone", ""},
		{"loopback", AgentConfig{Listen: "127.0.0.1:0"}, "127.0.0.1:0", true, "on loopback alone", ""},
		{"loopback of IPv6", AgentConfig{Listen: "[::1]:1"}, "[::1]:1", true, "on loopback alone", ""},
		{"loopback by name", AgentConfig{Listen: "localhost:1"}, "localhost:1", true, "on loopback alone", ""},
		{"a socket", AgentConfig{Listen: "unix:///run/api"}, "unix:///run/api", true, "on loopback alone", ""},
		{"all addresses", AgentConfig{Listen: ":7421"}, "", false, "", "--insecure-listen"},
		{"an address", AgentConfig{Listen: "10.1.2.3:7421"}, "", false, "", "--tls-cert"},
		{"a name", AgentConfig{Listen: "host:7421"}, "", false, "", "--tls-cert"},
		{"insecure", AgentConfig{Insecure: true}, ":7421", false, "without encryption", ""},
		{"insecure at an address", AgentConfig{Listen: "10.1.2.3:1", Insecure: true}, "10.1.2.3:1", false, "without encryption", ""},
		{"certificate", AgentConfig{TLSCert: cert, TLSKey: key}, ":7421", false, "", ""},
		{"certificate at an address", AgentConfig{Listen: "10.1.2.3:1", TLSCert: cert, TLSKey: key}, "10.1.2.3:1", false, "", ""},
		{"half a certificate", AgentConfig{TLSCert: cert}, "", false, "", "give both"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.cfg.apiListen()
			if c.wrong != "" {
				if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			if err != nil || got.address != c.address || got.local != c.local || !strings.Contains(got.advice, c.advice) || (c.advice == "") != (got.advice == "") {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// certificate writes a certificate for the test.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM, keyPEM := selfSigned(t)
	for path, text := range map[string][]byte{cert: certPEM, key: keyPEM} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestAddressOfLoopbackNamesTheMachine(t *testing.T) {
	at := apiListen{address: "127.0.0.1:0", local: true}
	l, err := at.listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for want, cfg := range map[string]AgentConfig{
		"http://127.0.0.1:" + port + "#" + watchdog.BootID(): {},
		"http://proxy:7": {Advertise: "proxy:7"},
	} {
		if got := cfg.address(l, at); got != want {
			t.Errorf("address %s, want %s", got, want)
		}
	}
}

func selfSigned(t *testing.T) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// TestWay: an agent with a server opens no port, unless it is told to.
func TestWay(t *testing.T) {
	join := Join{Server: "https://h:7421"}
	for _, c := range []struct {
		name     string
		cfg      AgentConfig
		tunneled bool
		wrong    string
	}{
		{"a server", AgentConfig{Join: join}, true, ""},
		{"etcd", AgentConfig{}, false, ""},
		{"a server, and a port", AgentConfig{Join: join, Listen: "127.0.0.1:0"}, false, ""},
		{"a server, and a host for tasks", AgentConfig{Join: join, Advertise: "h:1"}, true, ""},
		{"a server, and a certificate", AgentConfig{Join: join, TLSCert: "x"}, false, "tls-cert: "},
		{"a server, and a key", AgentConfig{Join: join, TLSKey: "x"}, false, "tls-key: "},
		{"a server, and no encryption", AgentConfig{Join: join, Insecure: true}, false, "insecure-listen: "},
		{"a server, and metrics", AgentConfig{Join: join, OpenTaskMetrics: true}, false, "open-task-metrics: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := c.cfg.way()
			if c.wrong != "" {
				if !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), c.wrong) || !strings.Contains(err.Error(), "--listen") {
					t.Errorf("%+v, %v", w, err)
				}
				return
			}
			if err != nil || w.tunneled != c.tunneled || (w.address == types.TunnelAddress) != c.tunneled {
				t.Errorf("%+v, %v", w, err)
			}
			w.close()
		})
	}
}
