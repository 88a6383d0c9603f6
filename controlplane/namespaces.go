package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// A Namespace is a namespace with settings by an administrator.
type Namespace struct {
	Name string
	// Revision is the revision of its last change.
	Revision int64
	types.Namespace
}

// Namespaces returns the namespaces that have settings, by name. It leaves out unreadable settings:
// the defaults apply there.
func (c *Client) Namespaces(ctx context.Context) ([]Namespace, error) {
	kvs, _, err := ListAll(ctx, c.store, ListOptions{Prefix: Prefix(Namespaces)})
	if err != nil {
		return nil, types.Errorf(types.ClassOf(err), "list namespaces: %w", err)
	}
	var all []Namespace
	for _, kv := range kvs {
		k, ok := Parse(kv.Key)
		n := Namespace{Name: k.Namespace, Revision: kv.ModRevision}
		if ok && Read(kv, &n.Namespace) {
			all = append(all, n)
		}
	}
	return all, nil
}

// GetNamespace returns the settings of a namespace. NotFound: it has none, and the built-in
// defaults apply.
func (c *Client) GetNamespace(ctx context.Context, name string) (Namespace, error) {
	n := Namespace{Name: name}
	err := types.ValidateName("namespace", name)
	if err != nil {
		return n, err
	}
	kv, err := Get(ctx, c.store, NamespaceKey(name))
	switch {
	case err != nil:
	case kv.ModRevision == 0:
		err = noNamespace(name)
	case !Read(kv, &n.Namespace):
		err = Unreadable(kv.Key)
	}
	if err != nil {
		return n, types.Errorf(types.ClassOf(err), "read namespace %s: %w", name, err)
	}
	n.Revision = kv.ModRevision
	return n, nil
}

// Closed returns the budget that a namespace has used up; nil if it is within its budgets.
func (c *Client) Closed(ctx context.Context, name string) (*types.Admission, error) {
	kv, err := Get(ctx, c.store, NamespaceAdmissionKey(name))
	if err != nil {
		return nil, types.Errorf(types.ClassOf(err), "read budget of namespace %s: %w", name, err)
	}
	if kv.ModRevision == 0 {
		return nil, nil
	}
	return usedUp(kv), nil
}

// usedUp returns why a namespace is closed, from its admission key.
func usedUp(kv KV) *types.Admission {
	var a types.Admission
	if !Read(kv, &a) {
		return &types.Admission{Reason: "max-keys: the name of the budget is unreadable"}
	}
	return &a
}

// CreateNamespace stores the settings of a namespace. AlreadyExists: it has some.
func (c *Client) CreateNamespace(ctx context.Context, name string, n types.Namespace) error {
	return c.editNamespace(ctx, &namespaceEdit{name: name, verbs: "create", create: true, change: func(is *types.Namespace) error {
		*is = n
		return nil
	}})
}

// SetNamespace changes the settings of a namespace, which may have none yet. It calls change with
// the present settings, possibly more than once.
func (c *Client) SetNamespace(ctx context.Context, name string, change func(*types.Namespace) error) error {
	return c.editNamespace(ctx, &namespaceEdit{name: name, verbs: "set", change: change})
}

// RemoveNamespace deletes the settings of a namespace: the built-in defaults apply again. NotFound:
// it has none. Precondition: the namespace is in use.
func (c *Client) RemoveNamespace(ctx context.Context, name string) error {
	return c.editNamespace(ctx, &namespaceEdit{name: name, verbs: "remove"})
}

func (c *Client) editNamespace(ctx context.Context, e *namespaceEdit) error {
	if err := types.ValidateName("namespace", e.name); err != nil {
		return types.Errorf(types.Invalid, "%s namespace: %w", e.verbs, err)
	}
	_, err := perform(ctx, c.store, nil, e)
	return err
}

// noNamespace returns the error for a namespace without settings: NotFound.
func noNamespace(name string) error {
	return types.Errorf(types.NotFound, "namespace %s has no settings, only the built-in defaults: %s", name, action.ListNamespaces.Of())
}

// namespaceEdit is an edit that changes the settings of a namespace, or removes them if change is
// nil.
type namespaceEdit struct {
	name, verbs string
	create      bool
	change      func(*types.Namespace) error
	// sent reports whether an earlier draft exists, whose write may have happened.
	sent bool
}

func (e *namespaceEdit) verb() string { return e.verbs + " namespace " + e.name }

func (e *namespaceEdit) draw(ctx context.Context, s Store, change *Change) error {
	kv, err := Get(ctx, s, NamespaceKey(e.name))
	if err != nil {
		return err
	}
	change.IfUnchanged(kv.Key, kv.ModRevision)
	if e.change == nil {
		return e.drawRemoval(ctx, s, kv, change)
	}
	var n types.Namespace
	if kv.ModRevision != 0 && !e.create && !Read(kv, &n) {
		n = types.Namespace{}
	}
	if err := e.change(&n); err != nil {
		return err
	}
	if err := n.Validate(); err != nil {
		return err
	}
	same := kv.ModRevision != 0 && types.Same(kv.Value, &n)
	switch {
	case e.create && kv.ModRevision != 0 && !(same && e.sent):
		return types.Errorf(types.AlreadyExists, "it exists already: %s", action.SetNamespace.Of(e.name))
	case !same:
		change.Put(kv.Key, &n)
	}
	e.sent = true
	return nil
}

// drawRemoval deletes the key, unless the namespace is in use.
func (e *namespaceEdit) drawRemoval(ctx context.Context, s Store, kv KV, change *Change) error {
	if kv.ModRevision == 0 {
		if e.sent {
			return nil
		}
		return noNamespace(e.name)
	}
	for _, kind := range []Kind{Tasks, Jobs, Reservations, Resources, Policies, Sessions, Secrets} {
		prefix := Prefix(kind, e.name)
		page, err := s.List(ctx, ListOptions{Prefix: prefix, Limit: 1, KeysOnly: true})
		if err != nil {
			return err
		}
		if len(page.KVs) > 0 {
			return types.Errorf(types.Precondition, "it is in use: %s exists: delete everything in it first, or %s", page.KVs[0].Key, action.SetNamespace.Of(e.name))
		}
		change.IfNoneSince(prefix, 0)
	}
	e.sent = true
	change.Delete(kv.Key)
	return nil
}

func (e *namespaceEdit) refused(context.Context, Store, []KV) error { return nil }
func (e *namespaceEdit) once() bool                                 { return false }
func (e *namespaceEdit) done(int64)                                 {}
