package room_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// TestMove moves a job to and fro by hand, one attempt each time, and leaves nothing; if it does
// not fit, it stays.
func TestMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 3) // of four cores each
		l := esltest.Submitted(t, jobs, esl.Copies(2, hollow.Task(1500, "stop", "1s")), room.Migrate{Within: 20e9})
		esltest.Pass(2 * time.Minute) // by now they are together
		from := strings.Fields(where(t, c, l.Tasks))[0]
		full, to := "n01", "n02"
		if from == to {
			to = "n00"
		} else if from == full {
			full = "n00"
		}
		before := sum(attempts(t, c, l.Tasks))
		for i, node := range []string{to, from, to} {
			if err := room.Move(t.Context(), jobs, l.Job, node); err != nil {
				t.Fatal(err)
			}
			if err := room.Move(t.Context(), jobs, l.Job, full); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "it is being moved") {
				t.Errorf("while it is being moved: %v", err)
			}
			esltest.Pass(10 * time.Second)
			if on, n := where(t, c, l.Tasks), sum(attempts(t, c, l.Tasks)); on != node+" "+node || n != before+2*(i+1) {
				t.Errorf("it is on %s, not %s, after %d attempts", on, node, n)
			}
		}
		other := fillNode(t, jobs, full, 3)
		if err := room.Move(t.Context(), jobs, l.Job, full); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(time.Minute)
		if on := where(t, c, l.Tasks); on != to+" "+to {
			t.Errorf("where there is no room for it, it is on %s", on)
		}
		plain := esltest.Submitted(t, jobs, esl.Copies(1, hollow.Task(100)))
		for want, of := range map[string][2]string{
			"it has not the policy migrate": {plain.Job, to}, "none of its tasks is elsewhere": {l.Job, to}, "there is no job": {"none", to}, "there is no node": {l.Job, "n9"},
		} {
			if err := room.Move(t.Context(), jobs, of[0], of[1]); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, not %q", err, want)
			}
		}
		stopped(t, jobs, append(append(l.Tasks, plain.Tasks...), other)...)
		esltest.NothingLeft(t, c)
	})
}
