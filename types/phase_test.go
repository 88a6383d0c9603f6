package types

import "testing"

func phases() []Phase { return []Phase{Pending, Bound, Running, Succeeded, Failed, Cancelled} }

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
