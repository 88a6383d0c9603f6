package access

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// TestGiveTogether checks that rights are given together or not at all.
func TestGiveTogether(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx := w.t.Context()
		g := Giver{w.Manager, root()}
		viewer := types.Right{Subjects: []string{"user:a"}, Role: rights.Viewer, Namespaces: []string{"lab"}}
		names := func() (all []string) {
			stored, _, err := w.Rights(ctx, root())
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range stored {
				all = append(all, r.Name+"="+string(r.Value.Role))
			}
			return all
		}
		two := map[string]types.Right{"x": viewer, "y": viewer}
		if err := g.Give(ctx, two, map[string]int64{"x": 0, "y": 0}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(names(), " "); got != "x=viewer y=viewer" {
			t.Errorf("given: %s", got)
		}
		member := viewer
		member.Role = rights.Member
		is, revision, err := g.Before(ctx, "x", &member)
		if err != nil || revision == 0 || is.Role != rights.Viewer {
			t.Errorf("before: %+v at %d, %v", is, revision, err)
		}
		// y is at another revision, z is not there: nothing changes.
		for name, at := range map[string]int64{"y": revision + 1, "z": revision} {
			err := g.Give(ctx, map[string]types.Right{"x": member, name: member}, map[string]int64{"x": revision, name: at})
			if !types.Is(err, types.Conflict) {
				t.Errorf("%s at %d: %v", name, at, err)
			}
		}
		many, none := make(map[string]types.Right), make(map[string]int64)
		for i := range w.Store.Limits().Ops + 1 {
			many[fmt.Sprint("r", i)] = viewer
		}
		if err := g.Give(ctx, many, none); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "split the file") {
			t.Errorf("too many: %v", err)
		}
		if got := strings.Join(names(), " "); got != "x=viewer y=viewer" {
			t.Errorf("after refusals: %s", got)
		}
	})
}

// TestTakenName checks that a caller learns nothing of a right of others by its name.
func TestTakenName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.grant("ada", types.Right{Subjects: []string{"user:ada"}, Role: rights.Administrator, Namespaces: []string{"lab"}})
		w.grant("web", types.Right{Subjects: []string{"user:carl"}, Role: rights.Viewer, Namespaces: []string{"secret-web"}})
		ada, _ := w.bearer(types.Credential{Subject: "user:ada"}, time.Hour)
		r := types.Right{Subjects: []string{"user:eve"}, Role: rights.Viewer, Namespaces: []string{"lab"}}
		is, _, err := (Giver{w.Manager, ada}).Before(w.t.Context(), "web", &r)
		if !types.Is(err, types.Denied) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "carl") {
			t.Errorf("%+v, %v", is, err)
		}
		// A right of its own that it may not give has a reason.
		w.grant("own", types.Right{Subjects: []string{"user:ada"}, Role: rights.Viewer, Namespaces: []string{"*"}})
		if _, _, err := (Giver{w.Manager, ada}).Before(w.t.Context(), "own", &r); !types.Is(err, types.Denied) || !strings.Contains(err.Error(), "no right to write rights in the cluster") {
			t.Errorf("its own: %v", err)
		}
	})
}
