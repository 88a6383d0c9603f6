package certs

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
)

// verify returns why clients with an authority do not trust the certificate of a server as a host.
func verify(t *testing.T, ca, cert, key, host string, at time.Time) error {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: at})
	return err
}

func TestCertificates(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "pki"), time.Now()
	a, err := Open(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Server(dir, "s.pem", "s.key", []string{"escher.example.com", "10.0.0.1", "localhost", "fd00::1"}, now, time.Hour); err != nil {
		t.Fatal(err)
	}
	ca, cert, key := filepath.Join(dir, CAFile), filepath.Join(dir, "s.pem"), filepath.Join(dir, "s.key")
	for host, want := range map[string]bool{"escher.example.com": true, "10.0.0.1": true, "localhost": true, "fd00::1": true, "example.com": false, "10.0.0.2": false} {
		if err := verify(t, ca, cert, key, host, now); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
	if verify(t, ca, cert, key, "localhost", now.Add(2*time.Hour)) == nil {
		t.Error("it is valid beyond its life")
	}
	for _, f := range []string{CAKeyFile, "s.key"} {
		if info, err := os.Stat(filepath.Join(dir, f)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}
	again, err := Open(dir, now.Add(time.Hour))
	if err != nil || !again.cert.Equal(a.cert) {
		t.Fatalf("opened again, it is another: %v", err)
	}
	if err := again.Server(dir, "s.pem", "s2.key", []string{"x"}, now, time.Hour); !types.Is(err, types.AlreadyExists) {
		t.Errorf("a file is replaced: %v", err)
	}
	other, err := Open(t.TempDir(), now)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Server(dir, "o.pem", "o.key", []string{"localhost"}, now, time.Hour); err != nil {
		t.Fatal(err)
	}
	if verify(t, ca, filepath.Join(dir, "o.pem"), filepath.Join(dir, "o.key"), "localhost", now) == nil {
		t.Error("the certificate of another authority is trusted")
	}
}

func TestRefused(t *testing.T) {
	now := time.Now()
	a, err := Open(t.TempDir(), now)
	if err != nil {
		t.Fatal(err)
	}
	for says, c := range map[string]struct {
		hosts []string
		life  time.Duration
	}{
		"host: is missing": {nil, time.Hour}, `host: "a b"`: {[]string{"a b"}, time.Hour}, `host: "http://a"`: {[]string{"http://a"}, time.Hour},
		"life: ": {[]string{"a"}, MaxLife + 1}, "life: 0s": {[]string{"a"}, 0},
	} {
		if err := a.Server(t.TempDir(), "s.pem", "s.key", c.hosts, now, c.life); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	for name, spoil := range map[string]func(dir string) error{
		"no key": func(dir string) error { return os.Remove(filepath.Join(dir, CAKeyFile)) },
		"junk":   func(dir string) error { return os.WriteFile(filepath.Join(dir, CAFile), []byte("junk"), 0o600) },
		"another key": func(dir string) error {
			other := t.TempDir()
			if _, err := Open(other, now); err != nil {
				return err
			}
			return os.Rename(filepath.Join(other, CAKeyFile), filepath.Join(dir, CAKeyFile))
		},
		"no authority": func(dir string) error {
			if err := a.Server(dir, "s.pem", "s.key", []string{"a"}, now, time.Hour); err != nil {
				return err
			}
			return os.Rename(filepath.Join(dir, "s.pem"), filepath.Join(dir, CAFile))
		},
	} {
		dir := t.TempDir()
		if _, err := Open(dir, now); err != nil {
			t.Fatal(err)
		}
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, now); err == nil || types.Is(err, types.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
