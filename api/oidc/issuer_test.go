package oidc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/api/oidc/oidctest"
	"github.com/escher-sched/escher/types"
)

// world is an issuer with what verifies its tokens, by one clock.
type world struct {
	t *testing.T
	*oidctest.Issuer
	verifier *oidc.Issuer
	mu       sync.Mutex
	at       time.Time
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// pass lets some time pass.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}

// config is the configuration for an issuer.
func config(i *oidctest.Issuer) oidc.Config {
	return oidc.Config{Issuer: i.URL, ClientID: oidctest.ClientID, UsernameClaim: "email", GroupsClaim: "groups", Prefix: "oidc:", CA: i.CA}
}

// newWorld starts an issuer. change changes the configuration of its verifier; nil leaves it.
func newWorld(t *testing.T, change func(*oidc.Config)) *world {
	t.Helper()
	w := &world{t: t, Issuer: oidctest.Start(t, time.Now), at: time.Now().Truncate(time.Second)}
	w.Now = w.now
	cfg := config(w.Issuer)
	if change != nil {
		change(&cfg)
	}
	var err error
	if w.verifier, err = oidc.New(cfg, w.now, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	return w
}

// refused checks that a token is refused, by an error with some text and without the token.
func (w *world) refused(name, token string, class types.Class, says string) {
	w.t.Helper()
	u, err := w.verifier.Verify(w.t.Context(), token)
	if !types.Is(err, class) || !strings.Contains(fmt.Sprint(err), says) || u.Name != "" {
		w.t.Errorf("%s: %+v, %v, want %q", name, u, err, says)
	}
	if err != nil && len(token) > 40 && strings.Contains(err.Error(), token[:40]) {
		w.t.Errorf("%s: the error shows the token: %v", name, err)
	}
	if w.verifier.Knows(token) {
		w.t.Errorf("%s: the token is known", name)
	}
}

// accepted checks that a token is one of a user.
func (w *world) accepted(token, user string, groups ...string) oidc.User {
	w.t.Helper()
	u, err := w.verifier.Verify(w.t.Context(), token)
	if err != nil || u.Name != user || !slices.Equal(u.Groups, groups) {
		w.t.Errorf("%+v, %v, want %s in %v", u, err, user, groups)
	}
	return u
}

const alice = "oidc_3aalice_40example_2eorg"

// TestVerify accepts the tokens of the issuer for this client, until they expire.
func TestVerify(t *testing.T) {
	w := newWorld(t, nil)
	token := w.Token(map[string]any{"groups": []string{"ml", "/team/a b"}, "azp": oidctest.ClientID, "aud": []string{"x", oidctest.ClientID}})
	if w.verifier.Knows(token) {
		t.Error("a token is known before it is verified")
	}
	u := w.accepted(token, alice, "oidc_3aml", "oidc_3a_2fteam_2fa_20b")
	if !u.Expires.Equal(w.now().Add(time.Hour)) || !w.verifier.Knows(token) {
		t.Errorf("%+v", u)
	}
	w.accepted(w.Token(map[string]any{"groups": "ml"}), alice, "oidc_3aml")
	w.accepted(w.Token(map[string]any{"groups": nil, "email_verified": nil}), alice)
	w.Set(func(s *oidctest.State) { s.Down = true })
	w.accepted(token, alice, u.Groups...)
	w.pass(time.Hour + time.Second)
	if w.verifier.Knows(token) {
		t.Error("an expired token is known")
	}
	w.refused("expired", token, types.Denied, "expired at "+u.Expires.UTC().Format(time.RFC3339)+": log in again with escher login")
	if n := w.Asked("/.well-known/openid-configuration"); n != 2 { // the second is due after an hour
		t.Errorf("asked the issuer about itself %d times", n)
	}
	w.accepted(w.Token(nil), alice) // by the keys that it had
}

// TestClaims refuses what a claim must not be.
func TestClaims(t *testing.T) {
	w := newWorld(t, nil)
	now, many := w.now(), make([]string, types.MaxGroups+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for name, c := range map[string]struct {
		claim string
		value any
		says  string
	}{
		"expired":               {"exp", now.Add(-time.Second).Unix(), "expired at"},
		"without an end":        {"exp", nil, "expired at"},
		"not valid yet":         {"nbf", now.Add(time.Hour).Unix(), "before the nbf"},
		"another issuer":        {"iss", "https://evil.example.org", "issued by a different provider"},
		"without an issuer":     {"iss", nil, "issued by a different provider"},
		"another audience":      {"aud", "other", `expected audience "escher"`},
		"without audience":      {"aud", nil, `expected audience "escher"`},
		"made for another":      {"azp", "other", `was made for the client "other"`},
		"without a name":        {"email", nil, "claim email of the token: is absent"},
		"null as name":          {"email", json.RawMessage("null"), "is no text"},
		"a number as name":      {"email", 7, "is no text"},
		"a list as name":        {"email", []string{"a"}, "is no text"},
		"an empty name":         {"email", "", "is empty"},
		"a control character":   {"email", "a\x1b]0;b", "not printable"},
		"a line break":          {"email", "a\nb", "not printable"},
		"too long a name":       {"email", strings.Repeat("a", 60), "at most 63 are allowed"},
		"an address not theirs": {"email_verified", false, "email_verified of the token: is not true"},
		"a text for verified":   {"email_verified", "true", "email_verified of the token: is not true"},
		"too many groups":       {"groups", many, "has 101 groups, and at most 100"},
		"too long a group":      {"groups", []string{"ml", strings.Repeat("g", 60)}, "claim groups of the token: group: "},
		"an empty group":        {"groups", []string{""}, "is empty"},
		"a group of control":    {"groups", []string{"a\x00"}, "not printable"},
		"groups of numbers":     {"groups", []int{1}, "is no list of texts"},
		"groups by name":        {"groups", map[string]bool{"a": true}, "is no list of texts"},
		"a large token":         {"pad", strings.Repeat("x", 16<<10), "bytes, and at most 16384"},
	} {
		w.refused(name, w.Token(map[string]any{c.claim: c.value}), types.Denied, c.says)
	}
	for _, garbage := range []string{"", "..", "a.b.c", "escher_a_b", strings.Repeat(".", 20)} {
		w.refused(garbage, garbage, types.Denied, "")
	}
}

// TestOtherClaims takes the name from another claim: nothing is verified about its address then.
func TestOtherClaims(t *testing.T) {
	w := newWorld(t, func(c *oidc.Config) {
		c.UsernameClaim, c.GroupsClaim, c.Prefix = "preferred_username", "roles", "corp:"
	})
	w.accepted(w.Token(map[string]any{"preferred_username": "bob", "email_verified": false, "roles": []string{"x"}, "groups": []string{"y"}}), "corp_3abob", "corp_3ax")
	// No claim makes the name of a local account, or of another user.
	for _, name := range []string{"root", "oidc:alice", "corp:bob", "bob_3a", "_3abob", "../bob"} {
		u, err := w.verifier.Verify(t.Context(), w.Token(map[string]any{"preferred_username": name}))
		if err != nil || !strings.HasPrefix(u.Name, "corp_3a") || u.Name == "corp_3abob" || !types.IsName(u.Name) {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
}

// TestSignatures refuses tokens that the issuer did not sign.
func TestSignatures(t *testing.T) {
	w := newWorld(t, nil)
	w.accepted(w.Token(nil), alice)
	own := w.Key().Key.(jose.JSONWebKey)
	public, err := x509.MarshalPKIXPublicKey(own.Public().Key)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(alg jose.SignatureAlgorithm, key any, kid string) string {
		return w.Sign(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	}
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	parts := strings.Split(w.Token(nil), ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"` + w.URL + `","aud":"escher","exp":9999999999,"email":"root"}`))
	for name, token := range map[string]string{
		"alg none":                      none + "." + parts[1] + ".",
		"alg none with a signature":     none + "." + parts[1] + "." + parts[2],
		"HMAC by the public key":        sign(jose.HS256, pemKey, own.KeyID),
		"HMAC by its DER":               sign(jose.HS256, public, own.KeyID),
		"the key of a stranger":         sign(jose.RS256, stranger, own.KeyID),
		"the key of a stranger, no kid": sign(jose.RS256, stranger, ""),
		"another algorithm":             sign(jose.ES256, curve, own.KeyID),
		"an unknown key":                sign(jose.RS256, stranger, "unknown"),
		"other claims":                  parts[0] + "." + forged + "." + parts[2],
		"without a signature":           parts[0] + "." + parts[1] + ".",
	} {
		says := "escher login"
		if strings.HasPrefix(name, "alg none") || strings.HasPrefix(name, "HMAC") {
			says = "unexpected signature algorithm"
		}
		w.refused(name, token, types.Denied, says)
	}
}

// TestFlood: tokens with unknown keys do not make a server ask the issuer more often than it may, and a
// new key of the issuer is found.
func TestFlood(t *testing.T) {
	w := newWorld(t, nil)
	w.accepted(w.Token(nil), alice)
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		token := w.Sign(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: stranger, KeyID: fmt.Sprint(i)}}, nil)
		w.refused("flood", token, types.Denied, "escher login")
	}
	if n := w.Asked("/keys"); n != 6 {
		t.Errorf("50 tokens with unknown keys made %d requests", n)
	}
	w.Rotate(false)
	token := w.Token(nil)
	w.refused("too soon", token, types.Denied, "try again in a minute")
	w.pass(10 * time.Second)
	w.accepted(token, alice)
	if n := w.Asked("/keys"); n != 7 {
		t.Errorf("a new key is found with %d requests", n)
	}
}

// TestRotation: a token of a new key is accepted, and one of a removed key within an hour no more.
func TestRotation(t *testing.T) {
	w := newWorld(t, nil)
	old := w.Token(map[string]any{"exp": w.now().Add(5 * time.Hour).Unix()})
	w.accepted(old, alice)
	w.Rotate(false)
	w.accepted(w.Token(nil), alice)
	w.accepted(old, alice)
	w.Rotate(true)
	w.accepted(w.Token(nil), alice)
	w.accepted(old, alice)
	w.pass(time.Hour)
	w.refused("removed key", old, types.Denied, "is not signed by the issuer")
}

// TestDown: an issuer that is down is asked again after a pause, by one request for all that wait, and local
// errors do not say that a token is wrong.
func TestDown(t *testing.T) {
	w := newWorld(t, nil)
	w.Set(func(s *oidctest.State) { s.Down = true })
	token := w.Token(nil)
	for range 20 {
		w.refused("down", token, types.Unavailable, "503 Service Unavailable: correct --oidc-issuer")
	}
	if n := w.Asked("/.well-known/openid-configuration"); n != 1 {
		t.Errorf("an issuer that is down is asked %d times", n)
	}
	w.Set(func(s *oidctest.State) { s.Down, s.Garbage = false, true })
	w.pass(5 * time.Second)
	w.refused("garbage", token, types.Unavailable, "failed to decode provider discovery object")
	w.Set(func(s *oidctest.State) { s.Garbage = false })
	w.pass(5 * time.Second)
	done := make(chan error)
	for range 20 {
		go func() {
			_, err := w.verifier.Verify(t.Context(), token)
			done <- err
		}()
	}
	for range 20 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if about, keys := w.Asked("/.well-known/openid-configuration"), w.Asked("/keys"); about != 3 || keys != 1 {
		t.Errorf("20 at once made %d requests about the issuer and %d for keys", about-2, keys)
	}
	w.Rotate(false)
	w.pass(time.Minute)
	w.Set(func(s *oidctest.State) { s.Down = true })
	w.refused("keys down", w.Token(nil), types.Unavailable, "for its keys")
	w.pass(time.Minute)
	w.Set(func(s *oidctest.State) { s.Down = false })
	w.accepted(w.Token(nil), alice)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.pass(time.Hour)
	if _, err := w.verifier.Verify(ctx, w.Token(map[string]any{"x": 1})); err != nil && !types.Is(err, types.Unavailable) {
		t.Error(err)
	}
}

// TestConfig is a table of configurations that are refused.
func TestConfig(t *testing.T) {
	i := oidctest.Start(t, time.Now)
	none := filepath.Join(t.TempDir(), "none.pem")
	if err := os.WriteFile(none, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(*oidc.Config){
		"oidc-issuer: \"http://":              func(c *oidc.Config) { c.Issuer = "http://127.0.0.1" },
		"oidc-issuer: \"https://\"":           func(c *oidc.Config) { c.Issuer = "https://" },
		"oidc-issuer: \"https://a:b@c\"":      func(c *oidc.Config) { c.Issuer = "https://a:b@c" },
		"oidc-issuer: \"https://c?x=y\"":      func(c *oidc.Config) { c.Issuer = "https://c?x=y" },
		"oidc-client-id: is empty":            func(c *oidc.Config) { c.ClientID = "" },
		"there is no issuer: give":            func(c *oidc.Config) { c.Issuer = "" },
		"oidc-username-claim, oidc-groups":    func(c *oidc.Config) { c.UsernameClaim = "" },
		"oidc-username-prefix: \"\"":          func(c *oidc.Config) { c.Prefix = "" },
		"oidc-username-prefix: \"oidc\"":      func(c *oidc.Config) { c.Prefix = "oidc" },
		"oidc-username-prefix: \"a:b:\"":      func(c *oidc.Config) { c.Prefix = "a:b:" },
		"oidc-username-prefix: \"a:b\"":       func(c *oidc.Config) { c.Prefix = "a:b" },
		"oidc-username-prefix: \"user:\"":     func(c *oidc.Config) { c.Prefix = "user:" },
		"oidc-username-prefix: \"-:\"":        func(c *oidc.Config) { c.Prefix = "-:" },
		"oidc-ca: open ":                      func(c *oidc.Config) { c.CA = "/nonexistent" },
		"none.pem has no certificate in PEM:": func(c *oidc.Config) { c.CA = none },
	} {
		cfg := config(i)
		change(&cfg)
		if _, err := oidc.New(cfg, time.Now, zap.NewNop()); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if v, err := oidc.New(oidc.Config{Prefix: "oidc:"}, time.Now, zap.NewNop()); v != nil || err != nil || v.Login().Issuer != "" {
		t.Errorf("without an issuer: %v, %v", v, err)
	}
	// The certificate of the issuer is checked.
	cfg := config(i)
	cfg.CA = ""
	v, err := oidc.New(cfg, time.Now, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), i.Token(nil)); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
}
