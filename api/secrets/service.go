package secrets

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

const (
	// maxSecrets bounds the secrets of a namespace: with the largest values they take a hundredth of
	// etcd's usual quota.
	maxSecrets = 256
	// maxAnswer bounds the values that one attempt gets: its node holds them in memory.
	maxAnswer = 1 << 20
	// readAtOnce bounds the sealed secrets that a listing has in memory.
	readAtOnce = 8
)

// Service stores and opens the secrets of a cluster.
type Service struct {
	Store controlplane.Store
	// Keys seal and open; nil means that this server has none.
	Keys *Keys
	Now  func() time.Time
}

// Stored is a stored secret, whose values stay sealed.
type Stored struct {
	Name     string
	Revision int64
	types.Secret
}

// Values are the values of secrets: by the name of the secret, and by the name of the entry.
type Values map[string]map[string][]byte

// keys returns the keys. Precondition: there are none.
func (s Service) keys() (*Keys, error) {
	if s.Keys == nil {
		return nil, types.Errorf(types.Precondition, "secrets: this server has no key for them: make one with escher admin secrets-key, and give it to every server with --secrets-key")
	}
	return s.Keys, nil
}

// Set stores the values of a secret in place of those before. Invalid: a name or a size is.
// Precondition: the server has no key, or the namespace has too many secrets.
func (s Service) Set(ctx context.Context, user, ns, name string, values map[string][]byte) error {
	keys, err := s.keys()
	if err != nil {
		return err
	}
	if err := Validate(name, values); err != nil {
		return err
	}
	sealed, err := keys.Seal(ns, name, values)
	if err != nil {
		return err
	}
	sealed.Set, sealed.User = s.Now().UnixNano(), user
	if err := sealed.Validate(); err != nil {
		return err
	}
	all, _, err := controlplane.ListAll(ctx, s.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Secrets, ns), KeysOnly: true})
	if err != nil {
		return err
	}
	key := controlplane.SecretKey(ns, name)
	at := slices.IndexFunc(all, func(kv controlplane.KV) bool { return kv.Key == key })
	change, was := controlplane.NewChange(controlplane.NewBatch()), int64(0)
	switch {
	case at >= 0:
		was = all[at].ModRevision
	case len(all) >= maxSecrets:
		return types.Errorf(types.Precondition, "set secret %s: namespace %s has %d, the most that it may have: remove some with escher secret rm", name, ns, len(all))
	}
	change.IfUnchanged(key, was)
	change.Put(key, &sealed)
	return s.commit(ctx, change, "set", name)
}

// commit makes a change of a secret.
func (s Service) commit(ctx context.Context, change *controlplane.Change, verb, name string) error {
	res, err := controlplane.Commit(ctx, s.Store, change.Txn())
	if err == nil && !res.Committed {
		err = types.Errorf(types.Conflict, "it has changed meanwhile: try again")
	}
	if err != nil {
		return types.Errorf(types.ClassOf(err), "%s secret %s: %w", verb, name, err)
	}
	return nil
}

// Validate checks the name and the values of a secret.
func Validate(name string, values map[string][]byte) error {
	if err := types.ValidateName("name", name); err != nil {
		return err
	}
	if len(values) == 0 || len(values) > types.MaxSecretEntries {
		return types.Errorf(types.Invalid, "set secret %s: has %d values: give 1 to %d", name, len(values), types.MaxSecretEntries)
	}
	sum := 0
	for entry, value := range values {
		if err := types.ValidateName("entry", entry); err != nil {
			return types.Errorf(types.Invalid, "set secret %s: %w", name, err)
		}
		if len(value) > types.MaxSecretValue {
			return types.Errorf(types.Invalid, "set secret %s: %s has %d bytes: at most %d are allowed, put large data on a mount", name, entry, len(value), types.MaxSecretValue)
		}
		sum += len(value)
	}
	if sum > types.MaxSecretBytes {
		return types.Errorf(types.Invalid, "set secret %s: has %d bytes: at most %d are allowed, divide it", name, sum, types.MaxSecretBytes)
	}
	return nil
}

// List returns up to limit secrets of a namespace by name, from the first one after a name, and the revision.
// It reads few at a time: their sealed values are large, and it returns none of them.
func (s Service) List(ctx context.Context, ns, after string, limit int) (all []Stored, revision int64, err error) {
	opts := controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Secrets, ns)}
	if after != "" {
		opts.After = controlplane.SecretKey(ns, after)
	}
	for {
		opts.Limit = min(limit-len(all), readAtOnce)
		page, err := s.Store.List(ctx, opts)
		if err != nil {
			return nil, 0, err
		}
		for _, kv := range page.KVs {
			x := Stored{Revision: kv.ModRevision}
			if k, ok := controlplane.Parse(kv.Key); ok && controlplane.Read(kv, &x.Secret) {
				x.Name, x.Sealed = k.ID, ""
				all = append(all, x)
			}
		}
		if !page.More || len(all) >= limit {
			return all, page.Revision, nil
		}
		opts.Revision, opts.After = page.Revision, page.KVs[len(page.KVs)-1].Key
	}
}

// Remove deletes a secret. Running tasks keep what they have got. NotFound: there is none.
func (s Service) Remove(ctx context.Context, ns, name string) error {
	if err := types.ValidateName("name", name); err != nil {
		return err
	}
	kv, err := controlplane.Get(ctx, s.Store, controlplane.SecretKey(ns, name))
	if err != nil {
		return err
	}
	if kv.ModRevision == 0 {
		return missing(ns, name)
	}
	change := controlplane.NewChange(controlplane.NewBatch())
	change.IfUnchanged(kv.Key, kv.ModRevision)
	change.Delete(kv.Key)
	return s.commit(ctx, change, "remove", name)
}

// missing is the error about a secret that does not exist.
func missing(ns, name string) error {
	return types.Errorf(types.NotFound, "find secret %s: namespace %s has none of that name: set it with escher secret set %s -n %s", name, ns, name, ns)
}

// For returns the values that the spec of an attempt names. Denied: the attempt is not bound to the node at
// this moment, or has ended. NotFound: there is no such secret, or it has no such entry.
func (s Service) For(ctx context.Context, node, ns, task string, attempt int) (Values, error) {
	keys, err := s.keys()
	if err != nil {
		return nil, err
	}
	spec, err := s.spec(ctx, node, ns, task, attempt)
	if err != nil {
		return nil, err
	}
	var wanted []string
	for _, u := range spec.Secrets {
		if key := controlplane.SecretKey(ns, u.Name); !slices.Contains(wanted, key) {
			wanted = append(wanted, key)
		}
	}
	if len(wanted) == 0 {
		return Values{}, nil
	}
	page, err := s.Store.List(ctx, controlplane.ListOptions{Keys: wanted})
	if err != nil {
		return nil, err
	}
	opened, size := make(Values), 0
	for _, kv := range page.KVs {
		k, _ := controlplane.Parse(kv.Key)
		var sealed types.Secret
		if !controlplane.Read(kv, &sealed) {
			return nil, controlplane.Unreadable(kv.Key)
		}
		if opened[k.ID], err = keys.Open(ns, k.ID, &sealed); err != nil {
			return nil, err
		}
	}
	out, err := named(ns, spec, opened)
	for _, values := range out {
		for _, v := range values {
			size += len(v)
		}
	}
	if err == nil && size > maxAnswer {
		err = types.Errorf(types.Invalid, "open the secrets of task %s: they have %d bytes: at most %d are allowed for a task, name fewer", task, size, maxAnswer)
	}
	return out, err
}

// spec returns the spec of an attempt that is bound to a node.
func (s Service) spec(ctx context.Context, node, ns, task string, attempt int) (*types.Spec, error) {
	for field, name := range map[string]string{"node": node, "namespace": ns, "task": task} {
		if err := types.ValidateName(field, name); err != nil {
			return nil, err
		}
	}
	binding, report := controlplane.BindingKey(node, ns, task, attempt), controlplane.ReportKey(node, ns, task, attempt)
	page, err := s.Store.List(ctx, controlplane.ListOptions{Keys: []string{binding, report}})
	if err != nil {
		return nil, err
	}
	var b types.Binding
	bound := false
	for _, kv := range page.KVs {
		var r types.Report
		switch {
		case kv.Key == binding:
			bound = controlplane.Read(kv, &b)
		case controlplane.Read(kv, &r) && r.Phase == types.ReportExited:
			return nil, types.Errorf(types.Denied, "open secrets: attempt %d of task %s has ended", attempt, task)
		}
	}
	if !bound {
		return nil, types.Errorf(types.Denied, "open secrets: attempt %d of task %s is not bound to node %s now", attempt, task, node)
	}
	kv, err := controlplane.Get(ctx, s.Store, controlplane.SpecKey(ns, b.Spec))
	if err != nil {
		return nil, err
	}
	spec := new(types.Spec)
	if kv.ModRevision == 0 || !controlplane.Read(kv, spec) {
		return nil, controlplane.Unreadable(controlplane.SpecKey(ns, b.Spec))
	}
	return spec, nil
}

// named returns the values that a spec names: all of a secret for a directory, else single entries.
func named(ns string, spec *types.Spec, opened Values) (Values, error) {
	out := make(Values)
	for _, u := range spec.Secrets {
		has, ok := opened[u.Name]
		if !ok {
			return nil, missing(ns, u.Name)
		}
		if out[u.Name] == nil {
			out[u.Name] = make(map[string][]byte)
		}
		for entry, value := range has {
			if u.Dir != "" {
				out[u.Name][entry] = value
			}
		}
		for _, e := range u.Env {
			_, entry, _ := strings.Cut(e, "=")
			value, ok := has[entry]
			if !ok {
				return nil, types.Errorf(types.NotFound, "find secret %s: namespace %s has it without the entry %s: set it with escher secret set %s -n %s", u.Name, ns, entry, u.Name, ns)
			}
			out[u.Name][entry] = value
		}
	}
	return out, nil
}
