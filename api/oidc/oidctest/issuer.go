// Package oidctest has an issuer of OpenID Connect for tests.
package oidctest

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// ClientID is the client of Escher at the issuer.
const ClientID = "escher"

// Issuer is an issuer with one user, whose claims a test sets. The user confirms each login at once.
type Issuer struct {
	// URL is its address, and CA the file of the authority of its certificate.
	URL, CA string
	// Now is its clock.
	Now func() time.Time

	t      testing.TB
	server *httptest.Server

	mu sync.Mutex
	State
	// key is the key that signs, and keys are those that it shows.
	key     jose.SigningKey
	keys    []jose.JSONWebKey
	asked   map[string]int
	pending map[string]int
	refresh string
}

// State is how the issuer behaves.
type State struct {
	// Claims are those of the user, and Life how long a token is valid.
	Claims map[string]any
	Life   time.Duration
	// Down makes it answer that it is down, and NoDevice that it has no device flow.
	Down, NoDevice bool
	// Denied makes the user refuse logins, and Ended the issuer renewals.
	Denied, Ended bool
	// Address is where users confirm a login; empty means at the issuer.
	Address string
	// Flaky makes it answer the first attempt to get a token as if it were down.
	Flaky bool
	// NoToken leaves the token of the user out of answers.
	NoToken bool
	// Garbage makes it answer with what is no answer.
	Garbage bool
}

// Start starts an issuer with a clock, which ends with the test.
func Start(t testing.TB, now func() time.Time) *Issuer {
	t.Helper()
	i := &Issuer{t: t, Now: now, asked: make(map[string]int), pending: make(map[string]int), State: State{Life: time.Hour}}
	mux := http.NewServeMux()
	for path, answer := range map[string]func(*http.Request) (int, any){
		"/.well-known/openid-configuration": i.discovery, "/keys": i.shown, "/device": i.device, "/token": i.token,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.asked[path]++
			status, body := http.StatusServiceUnavailable, any(map[string]string{"error": "down"})
			if !i.Down {
				status, body = answer(r)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			if i.Garbage {
				fmt.Fprint(w, "<html>")
				return
			}
			_ = json.NewEncoder(w).Encode(body) // the client may be gone
		})
	}
	i.server = httptest.NewTLSServer(mux)
	t.Cleanup(i.server.Close)
	i.URL, i.CA = i.server.URL, filepath.Join(t.TempDir(), "issuer.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.server.Certificate().Raw})
	if err := os.WriteFile(i.CA, text, 0o600); err != nil {
		t.Fatal(err)
	}
	i.Rotate(true)
	return i
}

// Set changes how the issuer behaves.
func (i *Issuer) Set(change func(*State)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(&i.State)
}

// Asked returns how often a path was requested.
func (i *Issuer) Asked(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[path]
}

// Rotate gives the issuer another key, of another algorithm. It shows the last one as well, unless that is
// dropped.
func (i *Issuer) Rotate(drop bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var private crypto.Signer
	var err error
	alg := jose.RS256
	if i.key.Algorithm == alg {
		alg = jose.ES256
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		i.t.Fatal(err)
	}
	if drop {
		i.keys = nil
	}
	kid := rand.Text()
	i.keys = append(i.keys, jose.JSONWebKey{Key: private.Public(), KeyID: kid, Algorithm: string(alg), Use: "sig"})
	i.key = jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: private, KeyID: kid}}
}

// Key returns the key that signs.
func (i *Issuer) Key() jose.SigningKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.key
}

// Token returns a token of a user with some claims, in place of what a token has otherwise; nil leaves one out.
func (i *Issuer) Token(claims map[string]any) string { return i.Sign(i.Key(), claims) }

// Sign is Token with another key.
func (i *Issuer) Sign(key jose.SigningKey, claims map[string]any) string {
	i.t.Helper()
	now := i.Now()
	all := map[string]any{
		"iss": i.URL, "aud": ClientID, "sub": "1", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"email": "alice@example.org", "email_verified": true,
	}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	text, err := json.Marshal(all)
	if err != nil {
		i.t.Fatal(err)
	}
	signer, err := jose.NewSigner(key, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		i.t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}

func (i *Issuer) discovery(*http.Request) (int, any) {
	doc := map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "token_endpoint": i.URL + "/token", "authorization_endpoint": i.URL + "/authorize",
		"id_token_signing_alg_values_supported": []string{"RS256", "ES256", "HS256"}, "scopes_supported": []string{"openid", "email", "groups", "offline_access"},
	}
	if !i.NoDevice {
		doc["device_authorization_endpoint"] = i.URL + "/device"
	}
	return http.StatusOK, doc
}

func (i *Issuer) shown(*http.Request) (int, any) {
	return http.StatusOK, jose.JSONWebKeySet{Keys: i.keys}
}

func (i *Issuer) device(r *http.Request) (int, any) {
	if r.PostFormValue("client_id") != ClientID || r.PostFormValue("scope") != "openid offline_access email groups" {
		return http.StatusBadRequest, map[string]string{"error": "invalid_client", "error_description": "scope " + r.PostFormValue("scope")}
	}
	code, address := rand.Text(), cmp.Or(i.Address, i.URL+"/activate")
	i.pending[code] = 1
	return http.StatusOK, map[string]any{
		"device_code": code, "user_code": "ABCD-EFGH", "verification_uri": address, "verification_uri_complete": address + "?user_code=ABCD-EFGH",
		"expires_in": 600, "interval": 1,
	}
}

// token answers a device that polls, or a client that renews a token. A token of renewal counts once.
func (i *Issuer) token(r *http.Request) (int, any) {
	refused := func(code string) (int, any) {
		return http.StatusBadRequest, map[string]string{"error": code, "error_description": "no"}
	}
	switch r.PostFormValue("grant_type") {
	case "refresh_token":
		if i.Ended || r.PostFormValue("refresh_token") != i.refresh || i.refresh == "" {
			return refused("invalid_grant")
		}
	default:
		code := r.PostFormValue("device_code")
		left, known := i.pending[code]
		if !known {
			return refused("invalid_grant")
		}
		if i.pending[code]--; left > 0 {
			if i.Flaky {
				return http.StatusBadGateway, nil
			}
			return refused("authorization_pending")
		}
		if i.Denied {
			return refused("access_denied")
		}
		delete(i.pending, code)
	}
	i.refresh = rand.Text()
	claims := map[string]any{"exp": i.Now().Add(i.Life).Unix(), "jti": rand.Text()}
	maps.Copy(claims, i.Claims)
	answer := map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 60, "refresh_token": i.refresh}
	if !i.NoToken {
		answer["id_token"] = i.Sign(i.key, claims)
	}
	return http.StatusOK, answer
}
