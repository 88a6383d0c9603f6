package decisions_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/decisions"
)

func id(name string) cluster.ID { return cluster.ID{Namespace: "d", ID: name} }

// TestEqualDecisionsShareAnEntry joins decisions in a row that differ only in when, why and on what
// they were made.
func TestEqualDecisionsShareAnEntry(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := decisions.New(begin)
	for i := range 3 {
		l.Add(id("a"), decisions.Entry{Policy: "gang", Last: begin.Add(time.Duration(i) * time.Minute), Revision: int64(i), Woken: fmt.Sprint("task ", i), Outcome: decisions.Nothing})
		l.Add(id("a"), decisions.Entry{Policy: "spread", Last: begin, Outcome: decisions.Done, Changes: []string{fmt.Sprint("set ", i)}})
	}
	page := l.Of(id("a"), 0)
	if len(page.Entries) != 4 || !page.Known || page.Seq != 6 {
		t.Fatalf("%+v", page)
	}
	folded := page.Entries[2]
	if folded.Times != 3 || !folded.First.Equal(begin) || !folded.Last.Equal(begin.Add(2*time.Minute)) || folded.Revision != 2 || folded.Woken != "task 2" || folded.Seq != 1 || folded.Changed != 5 {
		t.Errorf("%+v", folded)
	}
	if later := l.Of(id("a"), 4); len(later.Entries) != 2 || later.Entries[1].Changes[0] != "set 2" {
		t.Errorf("after 4: %+v", later)
	}
	if other := l.Of(id("b"), 0); other.Known || len(other.Entries) != 0 {
		t.Errorf("of another job: %+v", other)
	}
	l.Add(id("a"), decisions.Entry{Policy: "gang", Outcome: decisions.Nothing, Reason: "another one"})
	if again := l.Of(id("a"), 6); len(again.Entries) != 1 || again.Entries[0].Times != 1 {
		t.Errorf("another reason: %+v", again)
	}
	(*decisions.Log)(nil).Add(id("a"), decisions.Entry{})
	if none := (*decisions.Log)(nil).Of(id("a"), 0); none.Known {
		t.Errorf("of no log: %+v", none)
	}
}

// TestLogIsBounded adds more policies, entries and texts than a log keeps.
func TestLogIsBounded(t *testing.T) {
	l := decisions.New(time.Time{})
	long := strings.Repeat("x", 100_000)
	for i := range decisions.MaxEntries + 10 {
		l.Add(id("kept"), decisions.Entry{Policy: "gang", Outcome: decisions.Failed, Error: fmt.Sprint(i, long), Reason: long, Woken: long, Changes: []string{long}})
	}
	page := l.Of(id("kept"), 0)
	if n := len(page.Entries); n != decisions.MaxEntries || !strings.HasPrefix(page.Entries[0].Error, "10x") {
		t.Errorf("%d entries, the first begins with %.5s", n, page.Entries[0].Error)
	}
	for _, e := range page.Entries {
		if n := len(e.Error) + len(e.Reason) + len(e.Woken) + len(e.Changes[0]); n > 4*310 {
			t.Fatalf("an entry has %d bytes of text", n)
		}
	}
	for i := range decisions.MaxPolicies {
		l.Add(id("kept"), decisions.Entry{Policy: "gang", Outcome: decisions.Nothing})
		l.Add(id(fmt.Sprint("other-", i)), decisions.Entry{Policy: "gang", Outcome: decisions.Nothing})
	}
	for name, kept := range map[string]bool{"kept": true, "other-0": false, "other-1": true, "other-999": true} {
		if l.Of(id(name), 0).Known != kept {
			t.Errorf("%s is kept: %t", name, !kept)
		}
	}
}

// BenchmarkAdd adds a decision to do nothing, as most are.
func BenchmarkAdd(b *testing.B) {
	l := decisions.New(time.Time{})
	for i := range decisions.MaxPolicies {
		l.Add(id(fmt.Sprint(i)), decisions.Entry{Policy: "gang", Outcome: decisions.Nothing})
	}
	of := id("7")
	for b.Loop() {
		l.Add(of, decisions.Entry{Policy: "gang", Outcome: decisions.Nothing, Reason: "its reservation waits", Woken: "task train-1", Looked: &esl.Looked{Tasks: 8}})
	}
}

// TestChanges describes plans in a few words.
func TestChanges(t *testing.T) {
	sets := []controlplane.Resource{
		{Name: "a.gate", Capacity: esl.One, Where: controlplane.InCluster()}, {Name: "a.spread", Capacity: 2 * esl.One, Where: controlplane.OnNode("n1", "n2")},
		{Name: "b.gate", Where: controlplane.InCluster()}, {Name: "c", Where: controlplane.OnEvery(), Options: esl.OfJob("c")}, {Name: "d"},
	}
	plan := esl.Plan{
		Set: sets, Unreserve: []string{"r"}, Reserve: []controlplane.Reservation{{ID: "q"}}, Stop: []esl.Stop{{Task: "t"}}, Evict: []esl.Evict{{Task: "u"}, {Task: "v"}},
		Raise: []esl.Raise{{ID: "w", By: 2}}, Request: []esl.Request{{Task: "x"}},
	}
	want := []string{
		"set 5 resources: a.gate = 1, a.spread = 2 on n1 and n2, b.gate removed and 2 more", "reserve 1 reservation: q", "give up 1 reservation: r", "stop 1 task: t",
		"evict 2 tasks: u and v", "raise 1 item: w by 2", "change the requests of 1 task: x",
	}
	if got := decisions.Changes(&plan); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := decisions.Changes(&esl.Plan{Set: sets[3:4]}); got[0] != "set 1 resource: c = 0 on nodes" {
		t.Errorf("%q", got)
	}
}
