package keep

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestTurns replaces and removes times: turns come in the order of the last times.
func TestTurns(t *testing.T) {
	r, begin := rand.New(rand.NewPCG(1, 2)), time.Unix(1000, 0)
	var turns turns
	all := make([]*managedPolicy, 50)
	for i := range all {
		all[i] = &managedPolicy{}
	}
	for range 500 {
		p := all[r.IntN(len(all))]
		if r.IntN(4) == 0 {
			turns.never(p)
		} else {
			turns.at(p, begin.Add(time.Duration(r.IntN(1000)+1)*time.Second))
		}
	}
	var want, got []time.Time
	for _, p := range all {
		if !p.wake.IsZero() {
			want = append(want, p.wake)
		}
	}
	slices.SortFunc(want, time.Time.Compare)
	for {
		at, ok := turns.wake()
		if !ok {
			break
		}
		turns.due(at.Add(-1))
		if turns.ready() {
			t.Fatalf("it is the turn of one before %s", at)
		}
		turns.due(at)
		for turns.take() != nil {
			got = append(got, at)
		}
	}
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("the turns were at\n%v\nwant\n%v", got, want)
	}
}
