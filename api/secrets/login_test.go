package secrets

import (
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
)

// runs makes the task use an image.
func (w *world) runs(image string) {
	w.put(controlplane.SpecKey("lab", strings.Repeat("0", 64)), &types.Spec{Image: image})
}

// TestLogin gives the login of the namespace for the registry of the image of a bound attempt, and no other.
func TestLogin(t *testing.T) {
	w := newWorld(t)
	login := func(name string) string {
		l, err := w.Login(t.Context(), "n1", "lab", "t", 2)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return fmt.Sprintf("%s %s %s %s", l.Secret, l.Registry, l.Username, l.Password)
	}
	w.set("lab", "registry-ghcr.io", map[string]string{"username": "ann", "password": "sesame"})
	w.set("lab", "registry-reg.lan_5000", map[string]string{"username": "bob", "password": "open\n"})
	w.set("lab", "registry-docker.io", map[string]string{"username": "hub", "password": "p", "more": "x"})
	w.set("web", "registry-quay.io", map[string]string{"username": "of web", "password": "of web"})
	for image, want := range map[string]string{
		"ghcr.io/team/app:v1":          "registry-ghcr.io ghcr.io ann sesame",
		"reg.lan:5000/app":             "registry-reg.lan_5000 reg.lan:5000 bob open",
		"reg.lan/app":                  "   ",
		"busybox":                      "registry-docker.io docker.io hub p",
		"index.docker.io/team/app":     "registry-docker.io docker.io hub p",
		"registry-1.docker.io/team/ap": "registry-docker.io docker.io hub p",
		"quay.io/team/app":             "   ",
		"escher.local/demo":            "   ",
		"[::1]:5000/app":               "   ",
	} {
		w.runs(image)
		if got := login(image); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
	w.runs("ghcr.io/team/app:v1")
	first, _ := w.Login(t.Context(), "n1", "lab", "t", 2)
	w.set("lab", "registry-ghcr.io", map[string]string{"username": "ann", "password": "rotated"})
	second, _ := w.Login(t.Context(), "n1", "lab", "t", 2)
	if second.Password != "rotated" || second.Created != first.Created || second.Revision <= first.Revision {
		t.Errorf("after the rotation: created at %d and set at %d, before %d and %d", second.Created, second.Revision, first.Created, first.Revision)
	}
	if err := w.Remove(t.Context(), "lab", "registry-ghcr.io"); err != nil {
		t.Fatal(err)
	}
	if got := login("removed"); got != "   " {
		t.Errorf("after its removal: %q", got)
	}
	w.set("lab", "registry-ghcr.io", map[string]string{"username": "ann", "password": "sesame"})
	if third, err := w.Login(t.Context(), "n1", "lab", "t", 2); err != nil || third.Created == first.Created {
		t.Errorf("a new secret of the name has the creation of the old one, %d, %v", third.Created, err)
	}
	w.Keys = nil
	w.runs("reg.lan/app")
	if got := login("a server without a key, and no secret"); got != "   " {
		t.Error(got)
	}
}

// TestLoginRefuses refuses the login to other nodes, and one that no registry takes.
func TestLoginRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*world)
		node    string
		attempt int
		class   types.Class
		says    string
	}{
		"another node":    {nil, "n2", 2, types.Denied, "is not bound to node n2 now"},
		"another attempt": {nil, "n1", 1, types.Denied, "is not bound to node n1 now"},
		"no node":         {nil, "n/1", 2, types.Invalid, "node: "},
		"after its end": {func(w *world) {
			w.put(controlplane.ReportKey("n1", "lab", "t", 2), &types.Report{Phase: types.ReportExited, Ended: 9})
		}, "n1", 2, types.Denied, "has ended"},
		"without a key": {func(w *world) { w.Keys = nil }, "n1", 2, types.Precondition, "--secrets-key"},
		"another key":   {func(w *world) { w.Keys = keysOf(w.t, "b") }, "n1", 2, types.Precondition, "none of this server"},
		"no password": {func(w *world) {
			w.set("lab", "registry-ghcr.io", map[string]string{"username": "ann"})
		}, "n1", 2, types.Invalid, "password: is missing, or is no text: give that of the registry: set it with escher secret set --registry ghcr.io --username USER -n lab"},
		"no user": {func(w *world) {
			w.set("lab", "registry-ghcr.io", map[string]string{"password": "sesame"})
		}, "n1", 2, types.Invalid, "username: is missing"},
		"no text": {func(w *world) {
			w.set("lab", "registry-ghcr.io", map[string]string{"username": "ann", "password": "sesame\xff"})
		}, "n1", 2, types.Invalid, "password: is missing, or is no text"},
		"a user with a colon": {func(w *world) {
			w.set("lab", "registry-ghcr.io", map[string]string{"username": "ann:x", "password": "sesame"})
		}, "n1", 2, types.Invalid, "username: has a colon"},
		"a secret of another registry": {func(w *world) { // a writer of etcd sends the password elsewhere
			kv, err := controlplane.Get(w.t.Context(), w.Store, controlplane.SecretKey("lab", "registry-ghcr.io"))
			var s types.Secret
			if err != nil || !controlplane.Read(kv, &s) {
				w.t.Fatal(err)
			}
			w.put(controlplane.SecretKey("lab", "registry-evil.example"), &s)
			w.runs("evil.example/x")
		}, "n1", 2, types.Internal, "is not what a server has sealed"},
		"an unreadable secret": {func(w *world) {
			w.put(controlplane.SecretKey("lab", "registry-ghcr.io"), &types.Secret{Set: -1})
		}, "n1", 2, types.NotFound, "is unreadable"},
	} {
		w := newWorld(t)
		w.runs("ghcr.io/team/app:v1")
		w.set("lab", "registry-ghcr.io", map[string]string{"username": "ann", "password": "sesame"})
		if c.change != nil {
			c.change(w)
		}
		got, err := w.Login(t.Context(), c.node, "lab", "t", c.attempt)
		if !types.Is(err, c.class) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "sesame") || got != (secrets.Login{}) {
			t.Errorf("%s: %v, want %s %q", name, err, c.class, c.says)
		}
	}
}
