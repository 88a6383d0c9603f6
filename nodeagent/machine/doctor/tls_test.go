package doctor

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/etcdstore"
)

// TestEndpointCertificate tests that the doctor finds what is wrong with a certificate, and still
// reads its validity.
func TestEndpointCertificate(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		at   etcdstore.Address
		want string
	}{
		"trusted":           {etcdstore.Address{CACert: ca}, ""},
		"for another":       {etcdstore.Address{CACert: ca, ServerName: "other.example"}, "not other.example"},
		"of a stranger":     {etcdstore.Address{}, "unknown authority"},
		"no authorities":    {etcdstore.Address{CACert: ca + "x"}, "no authority can be read"},
		"without its names": {etcdstore.Address{CACert: ca, ServerName: "example.com"}, ""},
	} {
		e := endpoint(t.Context(), srv.URL, c.at)
		if e.Error != "" || e.Certificate == nil || e.Certificate.NotAfter.IsZero() {
			t.Errorf("%s: %+v", name, e)
			continue
		}
		if got := e.Certificate.Wrong; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if e := endpoint(t.Context(), strings.Replace(srv.URL, "https", "http", 1), etcdstore.Address{}); e.Error != "" || e.Certificate != nil {
		t.Errorf("not encrypted: %+v", e)
	}
	if e := endpoint(t.Context(), "nonsense", etcdstore.Address{}); e.Error == "" {
		t.Errorf("no address: %+v", e)
	}
}
