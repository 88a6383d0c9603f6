package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
	"github.com/escher-sched/escher/types/rights"
)

// ErrUnauthenticated is in the chain of an error about a caller without a valid credential.
var ErrUnauthenticated = errors.New("authenticate")

// Authority knows the credentials and rights of a cluster. It follows them, so that a revoked
// credential ends within moments, with the requests that it has open.
type Authority struct {
	// Issuer verifies tokens that the cluster did not make; nil means that there are none. It is set before
	// Run.
	Issuer *oidc.Issuer

	store controlplane.Store
	now   func() time.Time
	log   *zap.Logger

	mu          sync.Mutex
	synced      map[controlplane.Kind]bool
	credentials map[string]types.Credential
	rights      map[string]types.Right
	// bySubject has the rights of each subject: each request asks for them.
	bySubject map[string][]types.Right
	// changed is closed at the next change of a credential.
	changed chan struct{}
	// unknown bounds the questions to the store about tokens that are not known here.
	unknown *rate.Limiter
	// held are the open requests, each with what ends it if it is denied by now.
	held map[*hold]struct{}
}

// hold is an open request.
type hold struct {
	id   Identity
	need []rights.Need
	ns   string
	end  context.CancelCauseFunc
}

// New returns an authority. Run must run.
func New(store controlplane.Store, now func() time.Time, log *zap.Logger) *Authority {
	return &Authority{
		store: store, now: now, log: log, synced: make(map[controlplane.Kind]bool), credentials: make(map[string]types.Credential),
		rights: make(map[string]types.Right), held: make(map[*hold]struct{}),
		changed: make(chan struct{}), unknown: rate.NewLimiter(unknownRate, unknownRate),
	}
}

// Run follows credentials and rights until ctx is done.
func (a *Authority) Run(ctx context.Context) error {
	g, ctx := supervise.WithContext(ctx)
	for _, kind := range []controlplane.Kind{controlplane.Credentials, controlplane.Rights} {
		g.Go(func() error {
			opts := controlplane.ListWatchOptions{Prefix: controlplane.Prefix(kind), Log: a.log}
			return controlplane.ListWatch(ctx, a.store, opts, func(u controlplane.Update) error {
				a.apply(kind, u)
				return nil
			})
		})
	}
	return g.Wait()
}

// apply takes changes of a kind, and ends open requests that are denied by now.
func (a *Authority) apply(kind controlplane.Kind, u controlplane.Update) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.synced[kind] = true
	for _, e := range u.Events {
		k, ok := controlplane.Parse(e.Key)
		if !ok {
			continue
		}
		// An unreadable value counts as absent: it gives no right.
		if kind == controlplane.Credentials {
			var c types.Credential
			if delete(a.credentials, k.ID); !e.Delete && controlplane.Read(e.KV, &c) {
				a.credentials[k.ID] = c
			}
			continue
		}
		var r types.Right
		if delete(a.rights, k.ID); !e.Delete && controlplane.Read(e.KV, &r) {
			a.rights[k.ID] = r
		}
	}
	if len(u.Events) == 0 {
		return
	}
	close(a.changed)
	a.changed = make(chan struct{})
	if kind == controlplane.Rights {
		a.bySubject = make(map[string][]types.Right)
		for _, r := range a.rights {
			for _, s := range r.Subjects {
				a.bySubject[s] = append(a.bySubject[s], r)
			}
		}
	}
	for h := range a.held {
		if err := a.check(h.id, h.need, h.ns); err != nil {
			h.end(err)
			delete(a.held, h)
		}
	}
}

// secretMark begins each token, so that scanners for leaked secrets find it.
const secretMark = "escher_"

// hash returns the hash of a secret. A secret is random and long, so a fast hash is enough.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Identify returns the identity of the bearer of a token. Denied: there is no such token, or it has
// expired. Unavailable: the credentials are not known yet, or the issuer of the token is not reached.
func (a *Authority) Identify(ctx context.Context, token string) (Identity, error) {
	if a.issued(token) {
		return a.ofIssuer(ctx, token)
	}
	rest, marked := strings.CutPrefix(token, secretMark)
	id, secret, _ := strings.Cut(rest, "_")
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.ready(); err != nil {
		return Identity{}, err
	}
	a.await(id, "")
	c, known := a.credentials[id]
	if subtle.ConstantTimeCompare([]byte(hash(secret)), []byte(c.Hash)) != 1 || !known || !marked {
		return Identity{}, types.Errorf(types.Denied, "%w: the token is unknown, or was revoked: ask an administrator for one (escher auth token create)", ErrUnauthenticated)
	}
	out := Identity{
		Subject: c.Subject, Groups: c.Groups, Token: id, Role: c.Role, Namespaces: c.Namespaces, Expires: time.Unix(0, c.Expires),
	}
	return out, a.current(out)
}

// issued reports whether a token has the form of one of the issuer.
func (a *Authority) issued(token string) bool { return a.Issuer != nil && oidc.IsToken(token) }

// ofIssuer returns the identity of the bearer of a token of the issuer.
func (a *Authority) ofIssuer(ctx context.Context, token string) (Identity, error) {
	u, err := a.Issuer.Verify(ctx, token)
	if types.Is(err, types.Denied) {
		err = types.Errorf(types.Denied, "%w: %w", ErrUnauthenticated, err)
	}
	if err != nil {
		return Identity{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return Identity{Subject: types.UserSubject + ":" + u.Name, Groups: u.Groups, Expires: u.Expires}, a.ready()
}

const (
	// unknownRate is how many unknown tokens a second are looked up in the store.
	unknownRate = 50
	// catchUp is how long a token that is in the store may take to be known here.
	catchUp = 2 * time.Second
)

// await waits until a credential with a key, empty for a token, is known that is in the store: it works as
// soon as it is made, at every server. The caller holds the lock, which await gives back meanwhile.
func (a *Authority) await(id, key string) {
	known := func() bool {
		c, ok := a.credentials[id]
		return ok && c.Key == key
	}
	if known() || !types.IsName(id) || !a.unknown.AllowN(a.now(), 1) {
		return
	}
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), catchUp)
	defer cancel()
	kv, err := controlplane.Get(ctx, a.store, controlplane.CredentialKey(id))
	a.mu.Lock()
	var stored types.Credential
	for err == nil && kv.ModRevision != 0 && controlplane.Read(kv, &stored) && stored.Key == key && !known() && ctx.Err() == nil {
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		a.mu.Lock()
	}
}

// nodeCredential is the id of the credential of a node with a certificate.
func nodeCredential(node string) string {
	if id := "node." + node; types.IsName(id) {
		return id
	}
	return "node." + hash(node)[:40] // of a long name
}

// Certified returns the identity of the agent that has shown a certificate of the cluster's authority,
// which is valid. Denied: it is no node, or its name belongs to another key by now. Unavailable: the
// credentials are not known yet.
func (a *Authority) Certified(cert *x509.Certificate) (Identity, error) {
	node, ok := strings.CutPrefix(cert.Subject.CommonName, types.NodeSubject+":")
	if !ok || !types.IsName(node) {
		return Identity{}, types.Errorf(types.Denied, "%w: the certificate of %.80q is not one of a node: use a token", ErrUnauthenticated, cert.Subject.CommonName)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.ready(); err != nil {
		return Identity{}, err
	}
	id := nodeCredential(node)
	key := certs.KeyHash(cert.RawSubjectPublicKeyInfo)
	a.await(id, key)
	if c, known := a.credentials[id]; !known || c.Key != key {
		return Identity{}, types.Errorf(types.Denied, "%w: the certificate of node %s was revoked: join it again with a new token (escher auth token create --for node:%s)", ErrUnauthenticated, node, node)
	}
	return Identity{Subject: types.NodeSubject + ":" + node, Token: id, key: key, Expires: cert.NotAfter}, nil
}

// ready returns an error until the credentials are known. The caller holds the lock.
func (a *Authority) ready() error {
	if a.synced[controlplane.Credentials] && a.synced[controlplane.Rights] {
		return nil
	}
	return types.Errorf(types.Unavailable, "authenticate: the server does not know the credentials of the cluster yet: try again")
}

// Knows reports whether a token is a valid one, as far as is known here: it waits for nothing.
func (a *Authority) Knows(token string) bool {
	if a.issued(token) {
		return a.Issuer.Knows(token)
	}
	rest, _ := strings.CutPrefix(token, secretMark)
	id, secret, _ := strings.Cut(rest, "_")
	a.mu.Lock()
	defer a.mu.Unlock()
	c, known := a.credentials[id]
	return known && subtle.ConstantTimeCompare([]byte(hash(secret)), []byte(c.Hash)) == 1
}

// current returns nil while the credential of an identity is valid. The caller holds the lock.
func (a *Authority) current(id Identity) error {
	for name, depth := id.Token, 0; name != ""; depth++ {
		c, ok := a.credentials[name]
		if name = c.Parent; ok && depth < maxOwn && (id.key == "" || c.Key == id.key) {
			continue
		}
		return types.Errorf(types.Denied, "%w: token %s was revoked: ask an administrator for one (escher auth token create)", ErrUnauthenticated, id.Token)
	}
	if !id.Expires.IsZero() && !a.now().Before(id.Expires) {
		return expired(id)
	}
	return nil
}

// expired is the error about a token that has ended.
func expired(id Identity) error {
	if id.Token == "" {
		return types.Errorf(types.Denied, "%w: the token of the issuer expired at %s: log in again with escher login", ErrUnauthenticated, id.Expires.UTC().Format(time.RFC3339))
	}
	return types.Errorf(types.Denied, "%w: token %s expired at %s: ask an administrator for one (escher auth token create)", ErrUnauthenticated, id.Token, id.Expires.UTC().Format(time.RFC3339))
}

// check returns nil if an identity may do something in a namespace; empty means the cluster. The
// caller holds the lock.
func (a *Authority) check(id Identity, needs []rights.Need, ns string) error {
	if err := a.current(id); err != nil {
		return err
	}
	for _, n := range needs {
		if !a.allowed(id, n, ns) {
			return denied(id, n, ns)
		}
	}
	return nil
}

// denied says which right is missing.
func denied(id Identity, n rights.Need, ns string) error {
	if t := id.Task; t != nil {
		return types.Errorf(types.Denied, "%s: a task may not %s there: it has rights in its own namespace alone, %s: ask a server, with a token", id.Subject, n, t.Namespace)
	}
	where := "in the cluster"
	if ns != "" {
		where = "in namespace " + ns
	}
	bounds := ""
	if id.Role != "" || len(id.Namespaces) > 0 {
		bounds = ", within the bounds of its token"
	}
	return types.Errorf(types.Denied, "%s: has no right to %s %s%s: ask an administrator for a role there (escher auth grant)", issued.SubjectText(id.Subject), n, where, bounds)
}

// allowed reports whether an identity has a right. The caller holds the lock.
func (a *Authority) allowed(id Identity, n rights.Need, ns string) bool {
	if id.Root {
		return true
	}
	if id.Task != nil {
		return ns == id.Task.Namespace && ofTasks(n)
	}
	if !id.within(n, ns) {
		return false
	}
	return slices.ContainsFunc(id.subjects(), func(s string) bool {
		return slices.ContainsFunc(a.bySubject[s], func(r types.Right) bool { return covers(r.Namespaces, n, ns) && grants(&r, n) })
	})
}

// grants reports whether a right includes a need.
func grants(r *types.Right, n rights.Need) bool {
	return r.Role.Allows(n) || slices.Contains(r.Allow, n.String())
}

// May returns nil if an identity may do something in a namespace; empty means the cluster. Denied: it
// may not.
func (a *Authority) May(id Identity, n rights.Need, ns string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.check(id, []rights.Need{n}, ns)
}

// somewhere reports whether an identity may do something in some namespace or in the cluster.
func (a *Authority) somewhere(id Identity, n rights.Need) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current(id) == nil && (id.Root || slices.ContainsFunc(id.subjects(), func(s string) bool {
		return slices.ContainsFunc(a.bySubject[s], func(r types.Right) bool {
			return slices.ContainsFunc(r.Namespaces, func(ns string) bool {
				if ns == types.Everywhere && len(id.Namespaces) > 0 {
					ns = id.Namespaces[0] // it is as wide as the bounds of the token
				}
				return a.allowed(id, n, ns)
			})
		})
	}))
}

// caller returns an identity as the sender of a request.
func (a *Authority) caller(id Identity) Caller {
	return Caller{
		Identity:  id,
		May:       func(n rights.Need, ns string) error { return a.May(id, n, ns) },
		Somewhere: func(n rights.Need) bool { return a.somewhere(id, n) },
	}
}

// Ended returns why an open request ended: that it is denied by now, else err.
func Ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); types.Is(cause, types.Denied) {
		return cause
	}
	return err
}

// Hold begins a request of an identity. It returns a context that ends when the identity loses its
// rights or its credential, and a function to call at the end of the request. Denied: it may not do
// that.
func (a *Authority) Hold(ctx context.Context, id Identity, needs []rights.Need, ns string) (context.Context, func(), error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.check(id, needs, ns); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(With(ctx, a.caller(id)))
	h := &hold{id, needs, ns, cancel}
	a.held[h] = struct{}{}
	expiry := func() bool { return false }
	if !id.Expires.IsZero() {
		t := time.AfterFunc(id.Expires.Sub(a.now()), func() { cancel(expired(id)) })
		expiry = t.Stop
	}
	return ctx, func() {
		expiry()
		a.mu.Lock()
		delete(a.held, h)
		a.mu.Unlock()
		cancel(context.Canceled)
	}, nil
}
