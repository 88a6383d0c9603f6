package access

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/types"
)

// showing returns a certificate of a name with a key.
func showing(name, key string, w *world) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, RawSubjectPublicKeyInfo: []byte(key), NotAfter: w.Now().Add(certs.NodeLife)}
}

// TestCertificates: the name of a node belongs to the key with which it has joined, until that ends or is
// revoked.
func TestCertificates(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		ctx := t.Context()
		mine, other := certs.KeyHash([]byte("mine")), certs.KeyHash([]byte("other"))
		n1, _ := w.bearer(types.Credential{Subject: "node:n1"}, time.Hour)
		n2, _ := w.bearer(types.Credential{Subject: "node:n2"}, time.Hour)
		alice, _ := w.bearer(types.Credential{Subject: "user:alice"}, time.Hour)
		end := func() time.Time { return w.Now().Add(certs.NodeLife) }

		if _, err := w.Certified(showing("node:n1", "mine", w)); !types.Is(err, types.Denied) {
			t.Errorf("before it joins: %v", err)
		}
		for name, by := range map[string]Caller{"another node": n2, "a user": alice} {
			if err := w.Certify(ctx, by, "n1", mine, end()); !types.Is(err, types.Denied) {
				t.Errorf("%s joins it: %v", name, err)
			}
		}
		if err := w.Certify(ctx, n1, "n1", mine, end()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		id, err := w.Certified(showing("node:n1", "mine", w))
		if err != nil || id.Subject != "node:n1" {
			t.Fatal(id, err)
		}
		for name, cert := range map[string]*x509.Certificate{
			"another key": showing("node:n1", "other", w), "another node": showing("node:n2", "mine", w), "a user": showing("user:alice", "mine", w),
			"no name": showing("node:", "mine", w), "a path": showing("node:../n1", "mine", w),
		} {
			if _, err := w.Certified(cert); !types.Is(err, types.Denied) {
				t.Errorf("%s passes: %v", name, err)
			}
		}
		// The hash of the key is public: it is no token.
		if _, err := w.Identify(t.Context(), "escher_"+nodeCredential("n1")+"_mine"); !types.Is(err, types.Denied) {
			t.Errorf("its key passes as a token: %v", err)
		}
		if err := w.Certify(ctx, w.as(id), "n1", mine, end().Add(time.Hour)); err != nil {
			t.Errorf("it renews: %v", err)
		}
		if err := w.Certify(ctx, n1, "n1", other, end()); !types.Is(err, types.Denied) || !strings.Contains(err.Error(), "auth token revoke node.n1") {
			t.Errorf("another machine takes the name: %v", err)
		}

		held, done, err := w.Hold(ctx, id, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		if err := w.Certify(ctx, root(), "n1", other, end()); err != nil {
			t.Errorf("an administrator gives it another key: %v", err)
		}
		synctest.Wait()
		if !types.Is(context.Cause(held), types.Denied) {
			t.Errorf("requests with the former key go on: %v", context.Cause(held))
		}
		if err := w.RevokeToken(ctx, root(), "node.n1"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if _, err := w.Certified(showing("node:n1", "other", w)); !types.Is(err, types.Denied) {
			t.Errorf("revoked: %v", err)
		}
		if err := w.Certify(ctx, n1, "n1", mine, w.Now().Add(time.Minute)); err != nil {
			t.Errorf("it joins again: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if err := w.Certify(ctx, n1, "n1", other, end()); err != nil {
			t.Errorf("a name whose certificate has ended: %v", err)
		}
	})
}

// TestExpiredCertificate: the end of a certificate ends what its bearer has open.
func TestExpiredCertificate(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		n1, _ := w.bearer(types.Credential{Subject: "node:n1"}, time.Hour)
		if err := w.Certify(t.Context(), n1, "n1", certs.KeyHash([]byte("mine")), w.Now().Add(certs.NodeLife)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		id, err := w.Certified(showing("node:n1", "mine", w))
		if err != nil {
			t.Fatal(err)
		}
		held, done, err := w.Hold(t.Context(), id, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		time.Sleep(certs.NodeLife + time.Second)
		if !types.Is(context.Cause(held), types.Denied) {
			t.Error(context.Cause(held))
		}
	})
}

// TestLongNames: a node with a long name has a credential of its own as well.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("n", types.MaxName)
	if a, b := nodeCredential(long), nodeCredential(long[1:]); !types.IsName(a) || !types.IsName(b) || a == b {
		t.Error(a, b)
	}
}
