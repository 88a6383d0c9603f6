package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// The lives of tokens: that of one without a length, and the longest.
const (
	DefaultLife = 90 * 24 * time.Hour
	MaxLife     = 5 * 365 * 24 * time.Hour
)

const (
	// maxCredentials bounds the credentials of a cluster, and the rights: each server keeps all in
	// memory. maxOwn bounds those that a subject has when it makes another one for itself.
	maxCredentials = 100_000
	maxOwn         = 100
	// forgotten is how long a token is listed after its end, and forgetAtOnce how many are removed at a
	// time.
	forgotten    = 7 * 24 * time.Hour
	forgetAtOnce = 100
)

// Stored is a right or a credential as it is stored.
type Stored[T any] struct {
	Name     string
	Revision int64
	Value    T
}

// Manager makes and revokes credentials and rights for callers.
type Manager struct {
	Store controlplane.Store
	Now   func() time.Time
}

// MakeToken stores a credential that lives for a time, and returns its id and the token. The caller may
// make one for itself, with bounds no wider and an end no later than its own; an administrator of the
// cluster may make one for any subject. Denied: it may not.
func (m Manager) MakeToken(ctx context.Context, by Caller, c types.Credential, life time.Duration) (id, token string, err error) {
	if life == 0 {
		life = DefaultLife
	}
	if life < 0 || life > MaxLife {
		return "", "", types.Errorf(types.Invalid, "life: %s is out of range: give up to %s", life, MaxLife)
	}
	now := m.Now()
	c.Made, c.Expires, c.Maker = now.UnixNano(), now.Add(life).UnixNano(), by.Subject
	if err := m.mayMake(by, &c); err != nil {
		return "", "", err
	}
	id, secret := strings.ToLower(rand.Text()[:12]), rand.Text()
	c.Hash = hash(secret)
	if err := c.Validate(); err != nil {
		return "", "", err
	}
	if err := m.roomForToken(ctx, by, c.Subject); err != nil {
		return "", "", err
	}
	return id, secretMark + id + "_" + secret, m.put(ctx, controlplane.CredentialKey(id), 0, &c)
}

// certifyTime bounds a commit that stores the key of a node.
const certifyTime = 10 * time.Second

// Certify stores that a key is that of a node until a time, for a caller that has shown that it has the
// key. The node itself may ask, and an administrator. The name of a node stays with its key while its
// certificate is valid. The token by which a node joins ends. Denied: it may not, or the name has another
// key.
func (m Manager) Certify(ctx context.Context, by Caller, node, key string, expires time.Time) error {
	subject := types.NodeSubject + ":" + node
	if by.Subject != subject {
		if err := by.May(rights.Need{Verb: rights.Write, Kind: rights.Tokens}, ""); err != nil {
			return err
		}
	}
	id := nodeCredential(node)
	kv, err := controlplane.Get(ctx, m.Store, controlplane.CredentialKey(id))
	if err != nil {
		return err
	}
	var before types.Credential
	now := m.Now()
	if kv.ModRevision != 0 && controlplane.Read(kv, &before) && before.Key != key && now.UnixNano() < before.Expires && by.Subject == subject {
		return types.Errorf(types.Denied, "join node %s: its name belongs to another key: if that machine is gone, revoke it with escher auth token revoke %s", node, id)
	}
	c := types.Credential{Subject: subject, Key: key, Made: now.UnixNano(), Expires: expires.UnixNano(), Maker: by.Subject}
	if err := c.Validate(); err != nil {
		return err
	}
	change := controlplane.NewChange(controlplane.NewBatch())
	change.IfUnchanged(kv.Key, kv.ModRevision)
	change.Put(kv.Key, &c)
	// A fleet that joins lists the credentials once for each node only if none is replaced.
	if joins := by.Subject == subject && by.Token != "" && by.Token != id; joins {
		change.Delete(controlplane.CredentialKey(by.Token))
	} else if kv.ModRevision == 0 {
		if err := m.roomForToken(ctx, by, subject); err != nil {
			return err
		}
	}
	// The end of its token ends the request of the node: not before it has an answer.
	answered, cancel := context.WithTimeout(context.WithoutCancel(ctx), certifyTime)
	defer cancel()
	res, err := controlplane.Commit(answered, m.Store, change.Txn())
	if err == nil && !res.Committed {
		err = types.Errorf(types.Conflict, "join node %s: it joins by another request: try again", node)
	}
	return err
}

// mayMake returns nil if a caller may make a credential. It narrows the one that a caller makes for
// itself.
func (m Manager) mayMake(by Caller, c *types.Credential) error {
	err := by.May(rights.Need{Verb: rights.Write, Kind: rights.Tokens}, "")
	if err == nil || c.Subject != by.Subject {
		return err
	}
	if strings.HasPrefix(by.Subject, types.NodeSubject+":") {
		return types.Errorf(types.Denied, "for: %s makes no tokens: an administrator makes one for a machine that joins", by.Subject)
	}
	for _, g := range c.Groups {
		if !slices.Contains(by.Groups, g) {
			return types.Errorf(types.Denied, "groups: %s is not in group %.40q: leave it out", by.Subject, g)
		}
	}
	if by.Role != "" && (c.Role == "" || !slices.Contains(upTo(by.Role), c.Role)) {
		return types.Errorf(types.Denied, "role: the token of %s is bound to role %s: bind the new one to it as well, or to a lower one", by.Subject, by.Role)
	}
	if len(by.Namespaces) > 0 && (len(c.Namespaces) == 0 || slices.ContainsFunc(c.Namespaces, func(ns string) bool { return !slices.Contains(by.Namespaces, ns) })) {
		return types.Errorf(types.Denied, "namespaces: the token of %s is bound to %s: bind the new one to some of them", by.Subject, strings.Join(by.Namespaces, ", "))
	}
	if !by.Expires.IsZero() {
		c.Expires = min(c.Expires, by.Expires.UnixNano())
	}
	c.Parent = by.Token
	return nil
}

// upTo lists the roles up to one.
func upTo(r rights.Role) []rights.Role {
	all := rights.Roles()
	return all[:slices.Index(all, r)+1]
}

// Tokens lists the credentials that a caller may see: its own, and those of all subjects as an
// administrator of the cluster.
func (m Manager) Tokens(ctx context.Context, by Caller) ([]Stored[types.Credential], int64, error) {
	all := by.May(rights.Need{Verb: rights.Read, Kind: rights.Tokens}, "") == nil
	return list(ctx, m.Store, controlplane.Credentials, func(id string, c *types.Credential) bool { return all || by.owns(id, c) })
}

// owns reports whether a credential is one of the caller: of its subject or, for a caller with bounds,
// its own and those made by it.
func (c Caller) owns(id string, x *types.Credential) bool {
	bounded := c.Role != "" || len(c.Namespaces) > 0
	return x.Subject == c.Subject && (!bounded || id == c.Token || x.Parent == c.Token)
}

// RevokeToken revokes a credential: open requests of its bearer end within moments. NotFound: there is
// none that the caller may see.
func (m Manager) RevokeToken(ctx context.Context, by Caller, id string) error {
	return remove(ctx, m, controlplane.CredentialKey(id), "token", id, func(c *types.Credential) error {
		if by.owns(id, c) {
			return nil
		}
		return by.May(rights.Need{Verb: rights.Write, Kind: rights.Tokens}, "")
	})
}

// Grant stores a right under a name, in place of the one before. A caller gives no more than it has.
// Denied: it may not give that right. Conflict: the right has changed meanwhile.
func (m Manager) Grant(ctx context.Context, by Caller, name string, r types.Right) error {
	g := Giver{m, by}
	_, revision, err := g.Before(ctx, name, &r)
	if err != nil {
		return err
	}
	return g.Give(ctx, map[string]types.Right{name: r}, map[string]int64{name: revision})
}

// Giver gives rights for a caller.
type Giver struct {
	Manager

	By Caller
}

// Before returns the right that another one of its name would replace, and its revision, which is 0 if
// there is none. Denied: the caller may not give the new one, or may not change the one before.
func (g Giver) Before(ctx context.Context, name string, r *types.Right) (before types.Right, revision int64, err error) {
	if err := cmp.Or(types.ValidateName("name", name), r.Validate()); err != nil {
		return before, 0, err
	}
	if len(r.Subjects) == 0 || r.Role == "" && len(r.Allow) == 0 {
		return before, 0, types.Errorf(types.Invalid, "right %s: it gives nothing: set subjects, and role or allow", name)
	}
	if err := mayGive(g.By, r); err != nil {
		return before, 0, err
	}
	kv, err := controlplane.Get(ctx, g.Store, controlplane.RightKey(name))
	switch {
	case err != nil || kv.ModRevision == 0:
		return before, 0, err
	case !controlplane.Read(kv, &before):
		return before, 0, controlplane.Unreadable(kv.Key)
	case !maySee(g.By, &before) && !g.By.is(before.Subjects):
		return types.Right{}, 0, types.Errorf(types.Denied, "name: %s is taken by a right that you may not change: choose another name", name)
	}
	return before, kv.ModRevision, mayGive(g.By, &before)
}

// Give stores rights by their names, which Before has allowed: all or none. Conflict: one of them is not
// at its revision. Precondition: they are too many.
func (g Giver) Give(ctx context.Context, all map[string]types.Right, revisions map[string]int64) error {
	change, created := controlplane.NewChange(controlplane.NewBatch()), 0
	if most := g.Store.Limits().Ops; len(all) > most {
		return types.Errorf(types.Precondition, "rights: %d are given together, and the store takes %d: split the file", len(all), most)
	}
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names {
		r, key := all[name], controlplane.RightKey(name)
		change.IfUnchanged(key, revisions[name])
		change.Put(key, &r)
		if revisions[name] == 0 {
			created++
		}
	}
	if created > 0 {
		there, _, err := controlplane.ListAll(ctx, g.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Rights), KeysOnly: true})
		if err == nil {
			err = bounded(controlplane.Rights, len(there)+created-1)
		}
		if err != nil {
			return err
		}
	}
	return commit(ctx, g.Store, change, "right "+strings.Join(names, ", "))
}

// mayGive returns nil if a caller may give a right: it administers the namespaces, and has itself what
// the right allows.
func mayGive(by Caller, r *types.Right) error {
	for _, ns := range r.Namespaces {
		if ns == types.Everywhere {
			ns = ""
		}
		if err := by.May(rights.Need{Verb: rights.Write, Kind: rights.Grants}, ns); err != nil {
			return err
		}
		for _, verb := range rights.Verbs() {
			for _, kind := range rights.Kinds() {
				n := rights.Need{Verb: verb, Kind: kind}
				if !grants(r, n) || ns != "" && kind.Clusterwide() {
					continue
				}
				if err := by.May(n, ns); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Rights lists the rights that a caller may see: those that name it, those of namespaces that it
// administers, and all as an administrator of the cluster.
func (m Manager) Rights(ctx context.Context, by Caller) ([]Stored[types.Right], int64, error) {
	return list(ctx, m.Store, controlplane.Rights, func(_ string, r *types.Right) bool {
		return by.is(r.Subjects) || maySee(by, r)
	})
}

// maySee reports whether a caller may read the rights of all namespaces of a right.
func maySee(by Caller, r *types.Right) bool {
	return !slices.ContainsFunc(r.Namespaces, func(ns string) bool {
		if ns == types.Everywhere {
			ns = ""
		}
		return by.May(rights.Need{Verb: rights.Read, Kind: rights.Grants}, ns) != nil
	})
}

// Revoke removes a right: open requests that need it end within moments. NotFound: there is none.
func (m Manager) Revoke(ctx context.Context, by Caller, name string) error {
	return remove(ctx, m, controlplane.RightKey(name), "right", name, func(r *types.Right) error {
		if !maySee(by, r) && !by.is(r.Subjects) {
			return types.Errorf(types.NotFound, "there is no right %s", name)
		}
		return mayGive(by, r)
	})
}

// roomForToken returns nil if another token of a subject may be stored. It removes tokens that expired
// long ago.
func (m Manager) roomForToken(ctx context.Context, by Caller, subject string) error {
	all, _, err := list(ctx, m.Store, controlplane.Credentials, func(string, *types.Credential) bool { return true })
	if err != nil {
		return err
	}
	change, now, own := controlplane.NewChange(controlplane.NewBatch()), m.Now(), 0
	gone := 0
	for _, c := range all {
		switch {
		case gone < forgetAtOnce && now.Sub(time.Unix(0, c.Value.Expires)) > forgotten:
			key := controlplane.CredentialKey(c.Name)
			change.IfUnchanged(key, c.Revision)
			change.Delete(key)
			gone++
		case c.Value.Subject == subject:
			own++
		}
	}
	if gone > 0 {
		// If one has changed, or the store is not there, another one removes them later.
		_, _ = m.Store.Commit(ctx, change.Txn())
	}
	if own >= maxOwn && by.May(rights.Need{Verb: rights.Write, Kind: rights.Tokens}, "") != nil {
		return types.Errorf(types.Precondition, "token: %s has %d: revoke some with escher auth token revoke", subject, own)
	}
	return bounded(controlplane.Credentials, len(all)-gone)
}

// bounded returns nil if another key may be stored besides a number of the same kind.
func bounded(kind controlplane.Kind, n int) error {
	if n >= maxCredentials {
		return types.Errorf(types.Precondition, "%s: there are %d, the most that a cluster may have: remove some", kind, n)
	}
	return nil
}

// put stores a value if its key is at a revision. Conflict: it is not.
func (m Manager) put(ctx context.Context, key string, revision int64, v types.Message) error {
	change := controlplane.NewChange(controlplane.NewBatch())
	change.IfUnchanged(key, revision)
	change.Put(key, v)
	return commit(ctx, m.Store, change, key)
}

// commit makes a change of a key.
func commit(ctx context.Context, store controlplane.Store, change *controlplane.Change, key string) error {
	res, err := controlplane.Commit(ctx, store, change.Txn())
	if err != nil {
		return types.Errorf(types.ClassOf(err), "write %s: %w", key, err)
	}
	if !res.Committed {
		return types.Errorf(types.Conflict, "write %s: it has changed meanwhile: read it again", key)
	}
	return nil
}

// remove removes a key, if may returns nil for its value. NotFound: there is none, or no reader takes
// its value: the repair of an audit removes that.
func remove[T any, M interface {
	*T
	types.Message
}](ctx context.Context, m Manager, key, what, name string, may func(M) error) error {
	if err := types.ValidateName(what, name); err != nil {
		return err
	}
	kv, err := controlplane.Get(ctx, m.Store, key)
	if err != nil {
		return err
	}
	if kv.ModRevision == 0 {
		return types.Errorf(types.NotFound, "there is no %s %s", what, name)
	}
	v := M(new(T))
	if !controlplane.Read(kv, v) {
		return controlplane.Unreadable(key)
	}
	if err := may(v); err != nil {
		return err
	}
	change := controlplane.NewChange(controlplane.NewBatch())
	change.IfUnchanged(key, kv.ModRevision)
	change.Delete(key)
	return commit(ctx, m.Store, change, key)
}

// list returns the readable values of a kind that see accepts, by name, and the revision.
func list[T any, M interface {
	*T
	types.Message
}](ctx context.Context, store controlplane.Store, kind controlplane.Kind, see func(string, M) bool) (all []Stored[T], revision int64, err error) {
	kvs, revision, err := controlplane.ListAll(ctx, store, controlplane.ListOptions{Prefix: controlplane.Prefix(kind)})
	if err != nil {
		return nil, 0, types.Errorf(types.ClassOf(err), "list %s: %w", kind, err)
	}
	for _, kv := range kvs {
		k, ok := controlplane.Parse(kv.Key)
		v := M(new(T))
		if ok && controlplane.Read(kv, v) && see(k.ID, v) {
			all = append(all, Stored[T]{k.ID, kv.ModRevision, *v})
		}
	}
	return all, revision, nil
}
