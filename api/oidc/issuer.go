package oidc

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
)

// Config names an issuer, and says how its tokens are read.
type Config struct {
	// Issuer is its URL, and ClientID the client that its tokens must be for. Without an issuer there are no
	// such logins.
	Issuer, ClientID string
	// UsernameClaim and GroupsClaim are the claims with the name of the user and those of groups. Prefix
	// comes before them: a name and a colon.
	UsernameClaim, GroupsClaim, Prefix string
	// CA is the file of the authorities of its certificate; empty means the system's.
	CA string
}

// Login says how to get a token.
type Login struct {
	Issuer   string   `json:"issuer,omitempty" doc:"URL of the issuer of OpenID Connect; absent if the server takes the tokens of administrators alone"`
	ClientID string   `json:"clientID,omitempty" doc:"client for which the issuer makes the tokens"`
	Scopes   []string `json:"scopes,omitempty" doc:"scopes to request, those that the issuer has"`
}

// User is the bearer of a token, with the names of its groups, until the token expires.
type User struct {
	Name    string
	Groups  []string
	Expires time.Time
}

const (
	// maxToken bounds a token in bytes, and maxVerified the tokens that are remembered.
	maxToken    = 16 << 10
	maxVerified = 10_000
	// maxAge is how long a key counts that the issuer has removed, while the issuer answers. retryAfter is the
	// pause between attempts to reach it.
	maxAge     = time.Hour
	retryAfter = 5 * time.Second
	// keysEvery and keysBurst bound how often tokens with unknown keys make a server ask the issuer for its
	// keys.
	keysEvery = 10 * time.Second
	keysBurst = 5
)

// Issuer verifies the tokens of an issuer. It asks the issuer for its keys when a token comes, so that a
// server starts without it.
type Issuer struct {
	cfg    Config
	now    func() time.Time
	log    *zap.Logger
	to     transport
	flight singleflight.Group
	keys   *rate.Limiter

	mu      sync.Mutex
	current *provider
	// tried is when the issuer was last asked about itself, and failed the error of that; nil for none.
	tried  time.Time
	failed error
}

// provider is what the issuer said of itself at a time.
type provider struct {
	verifier *oidc.IDTokenVerifier
	made     time.Time

	mu sync.Mutex
	// verified are the tokens that are valid until they expire, by their hash.
	verified map[[sha256.Size]byte]User
}

// New returns the issuer of a configuration; nil if it names none. Invalid: it is incomplete or wrong.
func New(cfg Config, now func() time.Time, log *zap.Logger) (*Issuer, error) {
	if cfg.Issuer == "" {
		if cfg.ClientID != "" {
			return nil, types.Errorf(types.Invalid, "oidc-client-id: there is no issuer: give --oidc-issuer, too")
		}
		return nil, nil
	}
	u, err := url.Parse(cfg.Issuer)
	switch name, _, colon := strings.Cut(cfg.Prefix, ":"); {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, types.Errorf(types.Invalid, "oidc-issuer: %q is no URL of an issuer: write https://HOST/PATH, as its tokens have it", types.Cut(cfg.Issuer, types.MaxText))
	case cfg.ClientID == "":
		return nil, types.Errorf(types.Invalid, "oidc-client-id: is empty: give the id of the client that the issuer has for Escher")
	case cfg.UsernameClaim == "" || cfg.GroupsClaim == "":
		return nil, types.Errorf(types.Invalid, "oidc-username-claim, oidc-groups-claim: one is empty: leave it out for the default")
	case !colon || cfg.Prefix != name+":" || !types.IsName(name) || issued.IsKind(name):
		return nil, types.Errorf(types.Invalid, "oidc-username-prefix: %q: tells users of the issuer from others: write a name and a colon, such as oidc:", types.Cut(cfg.Prefix, types.MaxName))
	}
	to, err := newTransport(cfg.CA)
	return &Issuer{cfg: cfg, now: now, log: log, to: to, keys: rate.NewLimiter(rate.Every(keysEvery), keysBurst)}, err
}

// Login says how to get a token of the issuer; nil has none.
func (i *Issuer) Login() Login {
	if i == nil {
		return Login{}
	}
	return Login{Issuer: i.cfg.Issuer, ClientID: i.cfg.ClientID, Scopes: []string{oidc.ScopeOpenID, oidc.ScopeOfflineAccess, "profile", "email", "groups"}}
}

// IsToken reports whether a text has the form of a token of an issuer: three parts with dots between.
func IsToken(text string) bool { return strings.Count(text, ".") == 2 }

// Knows reports whether a token has been verified and has not expired. It waits for nothing.
func (i *Issuer) Knows(token string) bool {
	i.mu.Lock()
	p := i.current
	i.mu.Unlock()
	if p == nil {
		return false
	}
	_, known := p.known(sha256.Sum256([]byte(token)), i.now())
	return known
}

// Verify returns the bearer of a token. Denied: it is not valid. Unavailable: the issuer does not say whether
// it is.
func (i *Issuer) Verify(ctx context.Context, token string) (User, error) {
	if len(token) > maxToken {
		return User{}, types.Errorf(types.Denied, "the token has %d bytes, and at most %d are allowed: have the issuer send fewer claims, such as groups", len(token), maxToken)
	}
	p, err := i.provider(ctx)
	if err != nil {
		return User{}, err
	}
	sum := sha256.Sum256([]byte(token))
	if u, known := p.known(sum, i.now()); known {
		return u, nil
	}
	var keyErr error
	t, err := p.verifier.Verify(context.WithValue(ctx, keyError{}, &keyErr), token)
	if err != nil {
		return User{}, i.refusal(err, keyErr)
	}
	u, err := i.cfg.user(t)
	if err == nil {
		p.remember(sum, u, i.now())
	}
	return u, err
}

// refusal returns why a token is not valid. keyErr is the error about the key of its signature; nil if that is
// right.
func (i *Issuer) refusal(err, keyErr error) error {
	if types.Is(keyErr, types.Unavailable) {
		return types.Errorf(types.Unavailable, "ask the issuer %s for its keys: %.300s: try again, or log in with a token of an administrator", i.cfg.Issuer, keyErr)
	}
	if expired, ok := errors.AsType[*oidc.TokenExpiredError](err); ok {
		return types.Errorf(types.Denied, "the token of %s expired at %s: log in again with escher login", i.cfg.Issuer, expired.Expiry.UTC().Format(time.RFC3339))
	}
	if errors.Is(keyErr, errUnknown) {
		return types.Errorf(types.Denied, "the token is not signed by the issuer %s: log in again with escher login; if the issuer has a new key, try again in a minute", i.cfg.Issuer)
	}
	return types.Errorf(types.Denied, "the token is not valid at the issuer %s: %.300s: log in again with escher login", i.cfg.Issuer, err)
}

// provider returns what the issuer says of itself. All that wait share one question to it.
func (i *Issuer) provider(ctx context.Context) (*provider, error) {
	i.mu.Lock()
	p, err, now, tried := i.current, i.failed, i.now(), i.tried
	i.mu.Unlock()
	recent := err != nil && now.Sub(tried) < retryAfter
	switch {
	case p != nil && (recent || now.Sub(p.made) < maxAge): // without an answer, the last one counts
		return p, nil
	case recent:
		return nil, err
	}
	asked := i.flight.DoChan("", func() (any, error) { return i.discover() })
	select {
	case <-ctx.Done():
		return nil, types.Errorf(types.Unavailable, "ask the issuer %s: %w: try again", i.cfg.Issuer, context.Cause(ctx))
	case res := <-asked:
		if res.Err != nil && p != nil {
			return p, nil
		}
		found, _ := res.Val.(*provider)
		return found, res.Err
	}
}

// discover asks the issuer about itself.
func (i *Issuer) discover() (*provider, error) {
	ctx := oidc.ClientContext(context.Background(), i.to.client())
	found, err := oidc.NewProvider(ctx, i.cfg.Issuer)
	var meta struct {
		JWKS string `json:"jwks_uri"`
	}
	if err == nil {
		err = found.Claims(&meta)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tried, i.failed = i.now(), nil
	if err != nil {
		i.failed = types.Errorf(types.Unavailable, "ask the issuer %s about itself: %.300s: correct --oidc-issuer or --oidc-ca of the servers, or start the issuer; the tokens of administrators work without it", i.cfg.Issuer, err)
		i.log.Warn("issuer of logins is not reached", zap.Error(i.failed))
		return nil, i.failed
	}
	keys := &keySet{url: meta.JWKS, client: i.to.client(), allow: func() bool { return i.keys.AllowN(i.now(), 1) }, reading: make(chan struct{}, 1)}
	var algorithms []string
	for _, a := range asymmetric() {
		algorithms = append(algorithms, string(a))
	}
	i.current = &provider{
		verifier: oidc.NewVerifier(i.cfg.Issuer, keys, &oidc.Config{ClientID: i.cfg.ClientID, SupportedSigningAlgs: algorithms, Now: i.now}),
		made:     i.now(), verified: make(map[[sha256.Size]byte]User),
	}
	return i.current, nil
}

// asymmetric lists the algorithms of signatures by which the holder of a key that the issuer shows makes no tokens.
func asymmetric() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}
}

// known returns the bearer of a token that has been verified.
func (p *provider) known(sum [sha256.Size]byte, now time.Time) (User, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u, ok := p.verified[sum]
	return u, ok && now.Before(u.Expires)
}

// remember keeps the bearer of a verified token. When there are too many, all are verified again.
func (p *provider) remember(sum [sha256.Size]byte, u User, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.verified) >= maxVerified {
		clear(p.verified)
	}
	if now.Before(u.Expires) {
		p.verified[sum] = u
	}
}
