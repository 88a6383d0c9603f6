package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

func phases() []types.Phase {
	return []types.Phase{types.Pending, types.Bound, types.Running, types.Succeeded, types.Failed, types.Cancelled}
}

// TestMayFollow tests every pair of phases: a line a phase, with the phases that may follow.
func TestMayFollow(t *testing.T) {
	allowed := map[types.Phase]string{
		types.Pending:   "bound failed cancelled",
		types.Bound:     "pending running succeeded failed cancelled",
		types.Running:   "pending succeeded failed cancelled",
		types.Succeeded: "", types.Failed: "", types.Cancelled: "",
	}
	for from, list := range allowed {
		for _, to := range phases() {
			want := slices.Contains(strings.Fields(list), string(to))
			same, next := &types.Status{Phase: to, Attempt: 3}, &types.Status{Phase: to, Attempt: 4}
			at := &types.Status{Phase: from, Attempt: 3}
			if got := mayFollow(at, same); got != (want && to != types.Bound || from == to && from.Held()) {
				t.Errorf("%s to %s in the same attempt: %v", from, to, got)
			}
			if got := mayFollow(at, next); got != (want && to == types.Bound) {
				t.Errorf("%s to %s in the next attempt: %v", from, to, got)
			}
		}
		if mayFollow(&types.Status{Phase: from}, nil) != from.Ended() {
			t.Errorf("%s to nothing: %v", from, !from.Ended())
		}
	}
	if !mayFollow(nil, &types.Status{Phase: types.Bound, Attempt: 1}) || mayFollow(nil, &types.Status{Phase: types.Bound, Attempt: 2}) {
		t.Error("the first attempt is number 1")
	}
	if !mayFollow(nil, &types.Status{Phase: types.Cancelled}) || mayFollow(nil, &types.Status{Phase: types.Running}) || mayFollow(nil, nil) {
		t.Error("nothing is like pending")
	}
	if mayFollow(&types.Status{Phase: types.Pending, Attempt: 1}, &types.Status{Phase: types.Bound, Attempt: 3}) {
		t.Error("an attempt was left out")
	}
}

// TestMayFollowWithinAPhase checks that reason and restarts may change during an attempt, and its
// identity may not.
func TestMayFollowWithinAPhase(t *testing.T) {
	for _, phase := range []types.Phase{types.Bound, types.Running} {
		from := types.Status{Phase: phase, Node: "n1", Attempt: 2, Bound: 7, Restarts: 3}
		for what, edit := range map[string]func(*types.Status) bool{
			"nothing":        func(*types.Status) bool { return true },
			"reason":         func(s *types.Status) bool { s.Reason = "no such registry"; return true },
			"image":          func(s *types.Status) bool { s.Image = "a@sha256:1"; return true },
			"started":        func(s *types.Status) bool { s.Started = 9; return true },
			"restarts":       func(s *types.Status) bool { s.Restarts++; return true },
			"fewer restarts": func(s *types.Status) bool { s.Restarts--; return false },
			"node":           func(s *types.Status) bool { s.Node = "n2"; return false },
			"attempt":        func(s *types.Status) bool { s.Attempt++; return false },
			"bound":          func(s *types.Status) bool { s.Bound++; return false },
		} {
			to := from
			if want := edit(&to); mayFollow(&from, &to) != want {
				t.Errorf("%s, %s: %v", phase, what, !want)
			}
		}
	}
}

// TestMayCount checks that failures are counted one by one, when an attempt ends.
func TestMayCount(t *testing.T) {
	for _, test := range []struct {
		from, to types.Phase
		counted  int
		want     bool
	}{
		{types.Running, types.Pending, 0, true}, {types.Running, types.Pending, 1, true}, {types.Running, types.Pending, 2, false}, {types.Running, types.Pending, -1, false},
		{types.Bound, types.Failed, 1, true}, {types.Running, types.Failed, 0, true}, // given up with its node
		{types.Running, types.Running, 1, false}, {types.Running, types.Succeeded, 1, false}, {types.Running, types.Cancelled, 1, false},
		{types.Pending, types.Bound, 1, false}, {types.Pending, types.Bound, -1, false}, {types.Pending, types.Failed, 1, false}, {types.Pending, types.Failed, 0, true},
	} {
		from, to := types.Status{Phase: test.from, Attempt: 3, Failures: 2}, types.Status{Phase: test.to, Attempt: 3, Failures: 2 + test.counted}
		if test.to == types.Bound {
			to.Attempt++
		}
		if got := mayFollow(&from, &to); got != test.want {
			t.Errorf("%s to %s with %d failures more: %v", test.from, test.to, test.counted, got)
		}
	}
}
