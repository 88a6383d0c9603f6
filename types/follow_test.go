package types

import (
	"slices"
	"strings"
	"testing"
)

func phases() []Phase { return []Phase{Pending, Bound, Running, Succeeded, Failed, Cancelled} }

// TestMayFollow tests every pair of phases: a line a phase, with the phases that may follow.
func TestMayFollow(t *testing.T) {
	allowed := map[Phase]string{
		Pending:   "bound failed cancelled",
		Bound:     "pending running succeeded failed cancelled",
		Running:   "pending succeeded failed cancelled",
		Succeeded: "", Failed: "", Cancelled: "",
	}
	for from, list := range allowed {
		for _, to := range phases() {
			want := slices.Contains(strings.Fields(list), string(to))
			same, next := &Status{Phase: to, Attempt: 3}, &Status{Phase: to, Attempt: 4}
			at := &Status{Phase: from, Attempt: 3}
			if got := MayFollow(at, same); got != (want && to != Bound || from == to && from.Held()) {
				t.Errorf("%s to %s in the same attempt: %v", from, to, got)
			}
			if got := MayFollow(at, next); got != (want && to == Bound) {
				t.Errorf("%s to %s in the next attempt: %v", from, to, got)
			}
		}
		if MayFollow(&Status{Phase: from}, nil) != from.Ended() {
			t.Errorf("%s to nothing: %v", from, !from.Ended())
		}
	}
	if !MayFollow(nil, &Status{Phase: Bound, Attempt: 1}) || MayFollow(nil, &Status{Phase: Bound, Attempt: 2}) {
		t.Error("the first attempt is number 1")
	}
	if !MayFollow(nil, &Status{Phase: Cancelled}) || MayFollow(nil, &Status{Phase: Running}) || MayFollow(nil, nil) {
		t.Error("nothing is like pending")
	}
	if MayFollow(&Status{Phase: Pending, Attempt: 1}, &Status{Phase: Bound, Attempt: 3}) {
		t.Error("an attempt was left out")
	}
}

// TestMayFollowWithinAPhase checks that reason and restarts may change during an attempt, and its
// identity may not.
func TestMayFollowWithinAPhase(t *testing.T) {
	for _, phase := range []Phase{Bound, Running} {
		from := Status{Phase: phase, Node: "n1", Attempt: 2, Bound: 7, Restarts: 3}
		for what, edit := range map[string]func(*Status) bool{
			"nothing":        func(*Status) bool { return true },
			"reason":         func(s *Status) bool { s.Reason = "no such registry"; return true },
			"image":          func(s *Status) bool { s.Image = "a@sha256:1"; return true },
			"started":        func(s *Status) bool { s.Started = 9; return true },
			"restarts":       func(s *Status) bool { s.Restarts++; return true },
			"fewer restarts": func(s *Status) bool { s.Restarts--; return false },
			"node":           func(s *Status) bool { s.Node = "n2"; return false },
			"attempt":        func(s *Status) bool { s.Attempt++; return false },
			"bound":          func(s *Status) bool { s.Bound++; return false },
		} {
			to := from
			if want := edit(&to); MayFollow(&from, &to) != want {
				t.Errorf("%s, %s: %v", phase, what, !want)
			}
		}
	}
}

func TestPhases(t *testing.T) {
	for _, p := range phases() {
		if ended := p == Succeeded || p == Failed || p == Cancelled; p.Ended() != ended {
			t.Errorf("%s: ended is %v", p, p.Ended())
		}
		if p.Held() != (p == Bound || p == Running) {
			t.Errorf("%s: held is %v", p, p.Held())
		}
	}
}
