package types

import "testing"

// TestLeaving checks that a stop precedes an eviction, with the shorter grace, and that an eviction
// concerns its attempt alone.
func TestLeaving(t *testing.T) {
	for _, c := range []struct {
		task    Task
		attempt int
		want    *Stop
	}{
		{Task{}, 0, nil},
		{Task{}, 1, nil},
		{Task{Evict: 1, EvictGrace: 3}, 2, nil},
		{Task{Evict: 2, EvictGrace: 3}, 2, &Stop{Reason: "evicted", Grace: 3, Evicted: true}},
		{Task{Stop: &Stop{Reason: "x"}}, 2, &Stop{Reason: "x"}},
		{Task{Stop: &Stop{Reason: "x"}, Evict: 2, EvictGrace: 3}, 2, &Stop{Reason: "x", Grace: 3}},
		{Task{Stop: &Stop{Reason: "x"}, Evict: 1, EvictGrace: 3}, 2, &Stop{Reason: "x"}},
		{Task{Stop: &Stop{Reason: "x", Grace: 2}, Evict: 2, EvictGrace: 3}, 2, &Stop{Reason: "x", Grace: 2}},
		{Task{Stop: &Stop{Reason: "x", Grace: 2}, Evict: 2}, 2, &Stop{Reason: "x", Grace: 2}},
		{Task{Stop: &Stop{Reason: "x"}, Evict: 2}, 2, &Stop{Reason: "x"}},
	} {
		got := c.task.Leaving(c.attempt)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("attempt %d of %+v: %+v, want %+v", c.attempt, c.task, got, c.want)
		}
	}
}
