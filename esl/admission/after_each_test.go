package admission_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/types"
)

// TestAfterEach runs an array after another: each task begins when that of its index has succeeded,
// and ends if that has failed, or if there is none.
func TestAfterEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2)
		at := func(index int, command ...string) controlplane.Submission {
			s := esltest.Called("part", command...)
			s.Task.Index, s.Task.Count = index, 4
			return s
		}
		first := esltest.Submitted(t, jobs, []controlplane.Submission{at(2, "run", "9s"), at(5, "run", "1s"), at(7, "run", "1s", "exit", "3")})
		second := esltest.Submitted(t, jobs, []controlplane.Submission{at(7, "run", "1s"), at(5, "run", "1s"), at(2, "run", "1s"), at(6, "run", "1s")},
			admission.After{Jobs: []string{first.Job}, Each: true})
		time.Sleep(5 * time.Second)
		v := esltest.Statuses(t, jobs, controlplane.UntilEnded, second.Tasks[0], second.Tasks[1], second.Tasks[3])
		for i, want := range map[int]types.Phase{0: types.Cancelled, 1: types.Succeeded, 2: types.Cancelled} {
			if v[i].Phase != want {
				t.Errorf("%d is %s: %s", i, v[i].Phase, v[i].Reason)
			}
		}
		if !strings.Contains(v[0].Reason, first.Tasks[2]) || !strings.Contains(v[2].Reason, "task 6 of job "+first.Job) {
			t.Errorf("the reasons are %q, %q", v[0].Reason, v[2].Reason)
		}
		if text := esltest.TaskWhy(t, c, second.Tasks[2]); !strings.Contains(text, "task "+first.Tasks[0]) {
			t.Errorf("why: %q", text)
		}
		last, long := esltest.Statuses(t, jobs, controlplane.UntilEnded, second.Tasks[2])[0], esltest.Statuses(t, jobs, controlplane.UntilEnded, first.Tasks[0])[0]
		if last.Phase != types.Succeeded || last.Started < long.Ended {
			t.Errorf("it is %s, began at %d, and what comes before ended at %d", last.Phase, last.Started, long.Ended)
		}
		esltest.NothingLeft(t, c)
	})
	if err := (admission.After{Tasks: map[string][]string{"b": {"a"}}, Each: true}).Validate(); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "each: is about jobs") {
		t.Errorf("%v", err)
	}
}
