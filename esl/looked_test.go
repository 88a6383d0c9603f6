package esl_test

import (
	"testing"

	"github.com/escher-sched/escher/esl"
)

// TestLooked describes what a policy read, and leaves out what it did not.
func TestLooked(t *testing.T) {
	for want, l := range map[string]*esl.Looked{
		"":                         {},
		"1 task":                   {Tasks: 1},
		"1 pool, 2 reservations":   {Pools: 1, Reservations: 2},
		"2 jobs, 30 tasks, 1 node": {Jobs: 2, Tasks: 30, Nodes: 1},
	} {
		if got := l.String(); got != want {
			t.Errorf("%+v is %q, want %q", *l, got, want)
		}
	}
	if got := (*esl.Looked)(nil).String(); got != "" {
		t.Errorf("nothing that is known is %q", got)
	}
}
