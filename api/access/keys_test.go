package access

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// callerWith returns a caller with some rights in namespaces; * is all of them.
func callerWith(namespace string, allow ...string) Caller {
	return Caller{Identity: Identity{Subject: "user:alice"}, May: func(n rights.Need, ns string) error {
		if slices.Contains(allow, n.String()) && (namespace == "*" || ns == namespace || n.Open()) {
			return nil
		}
		return denied(Identity{Subject: "user:alice"}, n, ns)
	}}
}

// viewerIn returns a caller that may read all of a namespace.
func viewerIn(namespace string) Caller {
	var all []string
	for _, k := range rights.Kinds() {
		if n := (rights.Need{Verb: rights.Read, Kind: k}); rights.Viewer.Allows(n) {
			all = append(all, n.String())
		}
	}
	return callerWith(namespace, all...)
}

// TestKeysMay gives a viewer of a namespace the keys of the namespace and of nodes: none of another one, and
// no secret.
func TestKeysMay(t *testing.T) {
	may := KeysOf(viewerIn("lab"), "lab")
	for _, key := range []string{
		controlplane.TaskKey("lab", "a"), controlplane.StatusKey("lab", "a"), controlplane.JobKey("lab", "a"), controlplane.NodeKey("n"), controlplane.AliveKey("n"),
		controlplane.NamespaceKey("lab"), controlplane.EpochKey(), controlplane.BindingKey("n", "lab", "a", 1), controlplane.Prefix(controlplane.Allocated) + "n",
		controlplane.Prefix(controlplane.Allocated) + "*/lab/slots", controlplane.Prefix(controlplane.Leaders) + "collector",
	} {
		if err := may.May(key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	for _, key := range []string{
		controlplane.TaskKey("web", "a"), controlplane.JobKey("web", "a"), controlplane.NamespaceKey("web"), controlplane.BindingKey("n", "web", "a", 1),
		controlplane.Prefix(controlplane.Allocated) + "*/web/slots", controlplane.TokenKey("n"), controlplane.Prefix(controlplane.Credentials) + "x",
		controlplane.Prefix(controlplane.Rights) + "x", controlplane.SecretKey("lab", "db"), "/escher/new/x", "/other", "",
	} {
		if err := may.May(key); !types.Is(err, types.Denied) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := KeysOf(viewerIn("*"), "lab").May(controlplane.BindingKey("n", "web", "a", 1)); err != nil {
		t.Errorf("a viewer of all namespaces: %v", err)
	}
}

// TestKeysOfEveryKind decides about each kind of keys: it is readable, or one of those that no right gives.
func TestKeysOfEveryKind(t *testing.T) {
	never := []controlplane.Kind{controlplane.Tokens, controlplane.Credentials, controlplane.Rights, controlplane.Secrets}
	for _, kind := range never {
		if _, known := readable()[kind]; known {
			t.Errorf("%s is readable", kind)
		}
	}
	const kinds = 27 // controlplane.TestKeys counts them, too
	if n := len(never) + len(readable()); n != kinds {
		t.Errorf("%d kinds, want %d", n, kinds)
	}
}

// TestRanges reads only ranges of the namespace, and says which right is missing.
func TestRanges(t *testing.T) {
	may := KeysOf(viewerIn("lab"), "lab")
	for prefix, want := range map[string]string{
		"/escher/tasks/":         "/escher/tasks/lab/",
		"/escher/tasks/lab/web-": "/escher/tasks/lab/web-",
		"/escher/nodes/":         "/escher/nodes/",
		"/escher/namespaces/":    "/escher/namespaces/lab",
		"/escher/t":              "/escher/tasks/lab/",
	} {
		if got, err := may.Ranges(prefix); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %s, %v", prefix, got, err)
		}
	}
	if all, err := may.Ranges(controlplane.Root); err != nil || len(all) != len(readable()) || !slices.IsSorted(all) {
		t.Errorf("%s, %v", all, err)
	}
	for prefix, says := range map[string]string{
		"/escher/tasks/web/": "has no keys of namespace lab", "/escher/credentials/": "has no keys", "/": "", "/x": "has no keys",
	} {
		if got, err := may.Ranges(prefix); says != "" && (!types.Is(err, types.Denied) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %s, %v", prefix, got, err)
		}
	}
	some := KeysOf(callerWith("lab", "read state", "read jobs"), "lab")
	if got, err := some.Ranges("/escher/tasks/lab/"); !types.Is(err, types.Denied) || !strings.Contains(err.Error(), "has no right to read tasks in namespace lab") {
		t.Errorf("%s, %v", got, err)
	}
}

// TestKeysValue leaves out secrets, and what other namespaces hold.
func TestKeysValue(t *testing.T) {
	viewer := KeysOf(viewerIn("lab"), "lab")
	value := viewer.Value(controlplane.AliveKey("n"), types.Encode(0, &types.Alive{TTLSeconds: 7, Token: "secret"}))
	var alive types.Alive
	if err := types.Decode(value, &alive); err != nil || alive.TTLSeconds != 7 || alive.Token != "" {
		t.Errorf("%+v, %v", alive, err)
	}
	value = viewer.Value(controlplane.Prefix(controlplane.Leaders)+"policies", types.Encode(0, &types.Leader{Holder: "s", Address: "a", Token: "secret"}))
	if bytes.Contains(value, []byte("secret")) || !bytes.Contains(value, []byte("s")) {
		t.Errorf("%q", value)
	}
	held := types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: 1}, {Resource: "lab:slots", Amount: 2}, {Resource: "web:slots", Amount: 3}}}
	value = viewer.Value(controlplane.Prefix(controlplane.Allocated)+"n", types.Encode(0, &held))
	var allocated types.Allocated
	if err := types.Decode(value, &allocated); err != nil || len(allocated.Holds) != 2 || allocated.Of("web:slots") != 0 {
		t.Errorf("%+v, %v", allocated, err)
	}
	spec := types.Encode(0, &types.Spec{Image: "x:1", Env: []string{"KEY=secret", "B=c=d"}})
	key := controlplane.Prefix(controlplane.Specs, "lab") + strings.Repeat("a", 64)
	var shown types.Spec
	if err := types.Decode(viewer.Value(key, spec), &shown); err != nil || strings.Join(shown.Env, " ") != "KEY= B=" || shown.Image != "x:1" {
		t.Errorf("%+v, %v", shown, err)
	}
	if member := KeysOf(callerWith("lab", "write tasks"), "lab"); !bytes.Equal(member.Value(key, spec), spec) {
		t.Error("a member does not see the variables of its tasks")
	}
	if got := viewer.Value(controlplane.AliveKey("n"), []byte("junk")); got != nil {
		t.Errorf("an unreadable value: %q", got)
	}
}
