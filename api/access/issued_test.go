package access

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// TestIssuedIdentityEnds: an identity without a credential of the cluster ends at its time.
func TestIssuedIdentityEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.grant("lab", types.Right{Subjects: []string{"user:alice"}, Role: rights.Member, Namespaces: []string{"lab"}})
		id := Identity{Subject: "user:alice", Expires: time.Now().Add(time.Hour)}
		if err := w.May(id, need("read tasks"), "lab"); err != nil {
			t.Error(err)
		}
		ctx, end, err := w.Hold(w.t.Context(), id, nil, "lab")
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := w.May(id, need("read tasks"), "lab"); !types.Is(err, types.Denied) || !strings.Contains(err.Error(), "log in again") {
			t.Error(err)
		}
		if err := Ended(ctx, nil); !types.Is(err, types.Denied) || w.as(id).Somewhere(need("read tasks")) {
			t.Error(err)
		}
	})
}
