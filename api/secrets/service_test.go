package secrets

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// world is a store with secrets, and a task whose attempt is bound.
type world struct {
	Service
	t *testing.T
}

func newWorld(t *testing.T, uses ...types.SecretUse) *world {
	t.Helper()
	w := &world{Service{Store: memstore.New(), Keys: keysOf(t, "a"), Now: func() time.Time { return time.Unix(5, 0) }}, t}
	w.put(controlplane.SpecKey("lab", strings.Repeat("0", 64)), &types.Spec{Image: "x:1", Secrets: uses})
	w.bind("n1", 2)
	return w
}

// put stores a value.
func (w *world) put(key string, m types.Message) {
	w.t.Helper()
	change := controlplane.NewChange(controlplane.NewBatch())
	change.Put(key, m)
	if _, err := controlplane.Commit(w.t.Context(), w.Store, change.Txn()); err != nil {
		w.t.Fatal(err)
	}
}

// bind binds an attempt of task t to a node.
func (w *world) bind(node string, attempt int) {
	w.t.Helper()
	w.put(controlplane.BindingKey(node, "lab", "t", attempt), &types.Binding{Session: 1, Spec: strings.Repeat("0", 64), Bound: 1})
}

// drop deletes a key.
func (w *world) drop(key string) {
	w.t.Helper()
	change := controlplane.NewChange(controlplane.NewBatch())
	change.Delete(key)
	if _, err := controlplane.Commit(w.t.Context(), w.Store, change.Txn()); err != nil {
		w.t.Fatal(err)
	}
}

// set sets a secret, which must succeed.
func (w *world) set(ns, name string, values map[string]string) {
	w.t.Helper()
	if err := w.Set(w.t.Context(), "alice", ns, name, bytesOf(values)); err != nil {
		w.t.Fatal(err)
	}
}

func bytesOf(values map[string]string) map[string][]byte {
	out := make(map[string][]byte)
	for k, v := range values {
		out[k] = []byte(v)
	}
	return out
}

// TestFor gives the values that the spec of a bound attempt names, and no others.
func TestFor(t *testing.T) {
	w := newWorld(t, types.SecretUse{Name: "db", Env: []string{"A=password", "B=user"}}, types.SecretUse{Name: "tls", Dir: "/tls"}, types.SecretUse{Name: "db", Env: []string{"C=user"}})
	w.set("lab", "db", map[string]string{"password": "sesame", "user": "ann", "unnamed": "other"})
	w.set("lab", "tls", map[string]string{"key": "k", "cert": "c"})
	w.set("lab", "unused", map[string]string{"x": "y"})
	w.set("web", "db", map[string]string{"password": "of web", "user": "of web"})
	const want = "map[db:map[password:sesame user:ann] tls:map[cert:c key:k]]"
	if got, err := w.For(t.Context(), "n1", "lab", "t", 2); err != nil || fmt.Sprintf("%s", got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// TestForRefuses refuses the values to a node to which the attempt is not bound at that moment.
func TestForRefuses(t *testing.T) {
	const says = "is not bound to node"
	for name, c := range map[string]struct {
		change         func(*world)
		node, ns, task string
		attempt        int
		class          types.Class
		says           string
	}{
		"another node":      {nil, "n2", "lab", "t", 2, types.Denied, says},
		"an older attempt":  {nil, "n1", "lab", "t", 1, types.Denied, says},
		"a later attempt":   {nil, "n1", "lab", "t", 3, types.Denied, says},
		"another task":      {nil, "n1", "lab", "u", 2, types.Denied, says},
		"another namespace": {nil, "n1", "web", "t", 2, types.Denied, says},
		"after the unbind":  {func(w *world) { w.drop(controlplane.BindingKey("n1", "lab", "t", 2)) }, "n1", "lab", "t", 2, types.Denied, says},
		"after a move": {func(w *world) {
			w.drop(controlplane.BindingKey("n1", "lab", "t", 2))
			w.bind("n2", 3)
		}, "n1", "lab", "t", 2, types.Denied, says},
		"after its end": {func(w *world) {
			w.put(controlplane.ReportKey("n1", "lab", "t", 2), &types.Report{Phase: types.ReportExited, Ended: 9})
		}, "n1", "lab", "t", 2, types.Denied, "has ended"},
		"while it runs": {func(w *world) {
			w.put(controlplane.ReportKey("n1", "lab", "t", 2), &types.Report{Phase: types.ReportRunning})
		}, "n1", "lab", "t", 2, 0, ""},
		"an unreadable binding": {func(w *world) {
			w.put(controlplane.BindingKey("n1", "lab", "t", 2), &types.Binding{Session: -1})
		}, "n1", "lab", "t", 2, types.Denied, says},
		"without the spec":         {func(w *world) { w.drop(controlplane.SpecKey("lab", strings.Repeat("0", 64))) }, "n1", "lab", "t", 2, types.NotFound, "unreadable"},
		"a name that breaks a key": {nil, "n1", "lab", "t/2", 2, types.Invalid, "task: "},
		"without a key":            {func(w *world) { w.Keys = nil }, "n1", "lab", "t", 2, types.Precondition, "escher admin secrets-key"},
		"with another key":         {func(w *world) { w.Keys = keysOf(w.t, "b") }, "n1", "lab", "t", 2, types.Precondition, "none of this server"},
		"a removed secret":         {func(w *world) { w.drop(controlplane.SecretKey("lab", "db")) }, "n1", "lab", "t", 2, types.NotFound, "find secret db: namespace lab has none of that name: set it with escher secret set db -n lab"},
		"a removed entry":          {func(w *world) { w.set("lab", "db", map[string]string{"user": "ann"}) }, "n1", "lab", "t", 2, types.NotFound, "has it without the entry password: set it with escher secret set db"},
		"a broken secret": {func(w *world) {
			w.put(controlplane.SecretKey("lab", "db"), &types.Secret{Key: keysOf(w.t, "a").all[0].id, Sealed: "x"})
		}, "n1", "lab", "t", 2, types.Internal, "set the secret again"},
		"an unreadable secret": {func(w *world) { w.put(controlplane.SecretKey("lab", "db"), &types.Secret{Set: -1}) }, "n1", "lab", "t", 2, types.NotFound, "is unreadable"},
		"a secret of another name": {func(w *world) {
			s, err := w.Keys.Seal("lab", "other", bytesOf(map[string]string{"password": "sesame"}))
			if err != nil {
				w.t.Fatal(err)
			}
			w.put(controlplane.SecretKey("lab", "db"), &s)
		}, "n1", "lab", "t", 2, types.Internal, "is not what a server has sealed"},
	} {
		w := newWorld(t, types.SecretUse{Name: "db", Env: []string{"A=password"}})
		w.set("lab", "db", map[string]string{"password": "sesame"})
		if c.change != nil {
			c.change(w)
		}
		got, err := w.For(t.Context(), c.node, c.ns, c.task, c.attempt)
		switch {
		case c.says == "" && (err != nil || string(got["db"]["password"]) != "sesame"):
			t.Errorf("%s: %q, %v", name, got, err)
		case c.says != "" && (!types.Is(err, c.class) || !strings.Contains(err.Error(), c.says) || got != nil):
			t.Errorf("%s: %q, %v; want %s %q", name, got, err, c.class, c.says)
		}
	}
	if got, err := newWorld(t).For(t.Context(), "n1", "lab", "t", 2); err != nil || len(got) != 0 {
		t.Errorf("a spec without secrets: %v, %v", got, err)
	}
}

// TestForIsBounded refuses more values than a node holds for a task.
func TestForIsBounded(t *testing.T) {
	var uses []types.SecretUse
	w := newWorld(t)
	for i := range 5 {
		name := fmt.Sprint("s", i)
		values := make(map[string]string)
		for j := range 4 {
			values[fmt.Sprint("v", j)] = strings.Repeat("x", types.MaxSecretValue-1)
		}
		w.set("lab", name, values)
		uses = append(uses, types.SecretUse{Name: name, Dir: "/" + name})
	}
	for n, fits := range map[int]bool{4: true, 5: false} {
		w.put(controlplane.SpecKey("lab", strings.Repeat("0", 64)), &types.Spec{Image: "x:1", Secrets: uses[:n]})
		if _, err := w.For(t.Context(), "n1", "lab", "t", 2); (err == nil) != fits || err != nil && !strings.Contains(err.Error(), "at most 1048576 are allowed for a task") {
			t.Errorf("%d secrets: %v", n, err)
		}
	}
}

// TestSet stores what fits, and replaces what was there.
func TestSet(t *testing.T) {
	w := newWorld(t)
	large := strings.Repeat("x", types.MaxSecretValue)
	many := make(map[string]string)
	for i := range types.MaxSecretEntries + 1 {
		many[fmt.Sprint("e", i)] = ""
	}
	for says, c := range map[string]struct {
		name   string
		values map[string]string
	}{
		`name: "a/b"`:             {"a/b", map[string]string{"x": "y"}},
		`entry: "../x"`:           {"db", map[string]string{"../x": "y"}},
		`entry: is empty`:         {"db", map[string]string{"": "y"}},
		"has 0 values":            {"db", nil},
		"has 65 values":           {"db", many},
		"x has 65537 bytes":       {"db", map[string]string{"x": large + "x"}},
		"has 262145 bytes: at mo": {"db", map[string]string{"a": large, "b": large, "c": large, "d": large, "e": "x"}},
	} {
		if err := w.Set(t.Context(), "alice", "lab", c.name, bytesOf(c.values)); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "xxx") {
			t.Errorf("%.200v, want %q", err, says)
		}
	}
	w.set("lab", "large", map[string]string{"a": large, "b": large, "c": large, "d": large})
	w.set("lab", "db", map[string]string{"old": "sesame"})
	w.set("lab", "db", map[string]string{"new": "open"})
	w.set("web", "other", map[string]string{"x": "y"})
	all, revision, err := w.List(t.Context(), "lab", "", 10)
	if err != nil || revision == 0 || len(all) != 2 || all[0].Name != "db" || len(all[0].Entries) != 1 || all[0].Entries[0] != (types.SecretEntry{Name: "new", Size: 4}) {
		t.Errorf("%+v, %v", all, err)
	}
	for _, s := range all {
		if s.Sealed != "" || s.User != "alice" || s.Set != 5e9 || s.Revision == 0 {
			t.Errorf("listed as %.200v", s)
		}
	}
	if err := w.Remove(t.Context(), "lab", "db"); err != nil {
		t.Error(err)
	}
	if err := w.Remove(t.Context(), "lab", "db"); !types.Is(err, types.NotFound) {
		t.Errorf("removed twice: %v", err)
	}
	if err := w.Remove(t.Context(), "lab", "../x"); !types.Is(err, types.Invalid) {
		t.Error(err)
	}
	w.Keys = nil
	if err := w.Set(t.Context(), "", "lab", "db", bytesOf(map[string]string{"x": "y"})); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "--secrets-key") {
		t.Errorf("without a key: %v", err)
	}
}

// TestSetIsBounded bounds the secrets of a namespace.
func TestSetIsBounded(t *testing.T) {
	w := newWorld(t)
	for i := range maxSecrets {
		w.put(controlplane.SecretKey("lab", fmt.Sprint("s", i)), &types.Secret{})
	}
	if err := w.Set(t.Context(), "", "lab", "one-more", bytesOf(map[string]string{"x": "y"})); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "namespace lab has 256") {
		t.Error(err)
	}
	w.set("lab", "s7", map[string]string{"x": "y"})
	w.set("web", "s", map[string]string{"x": "y"})
}

// paging is a store that records how many keys a page has at most.
type paging struct {
	controlplane.Store
	limits []int
}

func (p *paging) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	p.limits = append(p.limits, opts.Limit)
	return p.Store.List(ctx, opts)
}

// TestListReadsFew reads few sealed values at a time, and none that are not asked for.
func TestListReadsFew(t *testing.T) {
	w := newWorld(t)
	for i := range 30 {
		w.put(controlplane.SecretKey("lab", fmt.Sprintf("s%02d", i)), &types.Secret{Key: "k", Sealed: "sealed"})
	}
	for name, c := range map[string]struct {
		after       string
		limit       int
		first, last string
		n, pages    int
	}{
		"all":            {"", 500, "s00", "s29", 30, 4},
		"a page":         {"", 10, "s00", "s09", 10, 2},
		"the next page":  {"s09", 10, "s10", "s19", 10, 2},
		"the last page":  {"s24", 10, "s25", "s29", 5, 1},
		"between names":  {"s24x", 2, "s25", "s26", 2, 1},
		"after the last": {"s29", 10, "", "", 0, 1},
	} {
		p := &paging{Store: w.Store}
		s := w.Service
		s.Store = p
		all, revision, err := s.List(t.Context(), "lab", c.after, c.limit)
		if err != nil || revision == 0 || len(all) != c.n || c.n > 0 && (all[0].Name != c.first || all[c.n-1].Name != c.last) {
			t.Errorf("%s: %d secrets, %v", name, len(all), err)
		}
		if len(p.limits) != c.pages || slices.Min(p.limits) < 1 || slices.Max(p.limits) > readAtOnce {
			t.Errorf("%s: pages of %v", name, p.limits)
		}
	}
}

// TestStoredIsSealed looks for a value in all that is stored.
func TestStoredIsSealed(t *testing.T) {
	w := newWorld(t)
	w.set("lab", "db", map[string]string{"password": "sesame", "b": "c2VzYW1l"})
	all, _, err := controlplane.ListAll(t.Context(), w.Store, controlplane.ListOptions{Prefix: controlplane.Root})
	if err != nil || !slices.ContainsFunc(all, func(kv controlplane.KV) bool { return kv.Key == controlplane.SecretKey("lab", "db") }) {
		t.Fatalf("%d keys, %v", len(all), err)
	}
	for _, kv := range all {
		if strings.Contains(string(kv.Value), "sesame") || strings.Contains(string(kv.Value), "c2VzYW1l") {
			t.Errorf("%s has a value", kv.Key)
		}
	}
}
