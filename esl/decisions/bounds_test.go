package decisions_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/decisions"
)

// TestWhatMakesADecisionAnotherOne adds two decisions in a row that differ in one field: they share an
// entry unless that field says what was decided, and the entry is the last one's.
func TestWhatMakesADecisionAnotherOne(t *testing.T) {
	soon := time.Unix(9, 0)
	for name, c := range map[string]struct {
		change func(e *decisions.Entry)
		shared bool
	}{
		"equal":     {func(*decisions.Entry) {}, true},
		"revision":  {func(e *decisions.Entry) { e.Revision = 7 }, true},
		"woken":     {func(e *decisions.Entry) { e.Woken = "node n2" }, true},
		"looked":    {func(e *decisions.Entry) { e.Looked = &esl.Looked{Jobs: 3} }, true},
		"committed": {func(e *decisions.Entry) { e.Committed = 8 }, true},
		"again":     {func(e *decisions.Entry) { e.Again = &soon }, true},
		"outcome":   {func(e *decisions.Entry) { e.Outcome = decisions.Partly }, false},
		"reason":    {func(e *decisions.Entry) { e.Reason = "" }, false},
		"error":     {func(e *decisions.Entry) { e.Error = "no" }, false},
		"a change":  {func(e *decisions.Entry) { e.Changes = []string{"set 2"} }, false},
		"more":      {func(e *decisions.Entry) { e.Changes = append(e.Changes, "stop 1") }, false},
		"policy":    {func(e *decisions.Entry) { e.Policy = "spread-2" }, false},
		"cut off":   {func(e *decisions.Entry) { e.Woken = strings.Repeat("n", 5000) }, true},
	} {
		l := decisions.New(time.Time{})
		entry := func() decisions.Entry {
			return decisions.Entry{Policy: "spread", Last: soon, Outcome: decisions.Done, Reason: "r", Woken: "node n1", Changes: []string{"set 1"}}
		}
		second := entry()
		c.change(&second)
		l.Add(id("a"), entry())
		l.Add(id("a"), second)
		entries := l.Of(id("a"), 0).Entries
		if shared := len(entries) == 1; shared != c.shared {
			t.Errorf("%s: %+v", name, entries)
			continue
		}
		got := entries[len(entries)-1]
		if got.Changed != 2 || got.Revision != second.Revision || got.Committed != second.Committed || got.Again != second.Again || got.Looked != second.Looked {
			t.Errorf("%s: the last one is %+v", name, got)
		}
		l.Add(id("a"), entry()) // again equal to the first, but not always in a row
		if n, want := len(l.Of(id("a"), 0).Entries), len(entries); n != want && (c.shared || n != want+1) {
			t.Errorf("%s: %d entries, after %d", name, n, want)
		}
	}
}

// TestTextsAreCut adds texts at the limit and beyond it, of letters of several bytes: what is kept is
// valid, and texts that are equal as kept are equal.
func TestTextsAreCut(t *testing.T) {
	for n, whole := range map[int]bool{299: true, 300: true, 301: false} {
		l := decisions.New(time.Time{})
		text := strings.Repeat("é", n/2) + strings.Repeat("x", n%2)
		l.Add(id("a"), decisions.Entry{Policy: text, Reason: text, Error: text, Woken: text, Changes: []string{"set 1", text}})
		e := l.Of(id("a"), 0).Entries[0]
		for _, kept := range []string{e.Policy, e.Reason, e.Error, e.Woken, e.Changes[1]} {
			if len(kept) > 300 || !utf8.ValidString(kept) || (kept == text) != whole || len(kept) < 290 {
				t.Errorf("of %d bytes %d are kept: %q", n, len(kept), kept)
			}
		}
	}
	l := decisions.New(time.Time{})
	for _, end := range []string{"one", "two"} {
		l.Add(id("a"), decisions.Entry{Policy: "gang", Outcome: decisions.Failed, Error: strings.Repeat("z", 300) + end})
	}
	if entries := l.Of(id("a"), 0).Entries; len(entries) != 1 || entries[0].Times != 2 {
		t.Errorf("%d entries for errors that are equal as kept", len(entries))
	}
}

// TestFollow reads what has changed since the last answer, as a reader with -f does: it gets the last
// state of each entry, in the order of their changes, and nothing twice.
func TestFollow(t *testing.T) {
	l := decisions.New(time.Time{})
	after := int64(0)
	for i, step := range []struct{ add, want string }{
		{"", ""},
		{"gang.a spread.a gang.a", "spread.a gang.a*2"},
		{"", ""},
		{"spread.a", "spread.a*2"},
		{"other/gang.a", ""},
		{"gang.b gang.a spread.b", "gang.b gang.a spread.b"},
		{strings.Repeat("gang.c gang.d ", 20) + "spread.b", strings.Repeat("gang.c gang.d ", 16) + "spread.b*2"},
		{"", ""},
	} {
		for _, one := range strings.Fields(step.add) {
			of := "job"
			if job, rest, ok := strings.Cut(one, "/"); ok {
				of, one = job, rest
			}
			policy, reason, _ := strings.Cut(one, ".")
			l.Add(id(of), decisions.Entry{Policy: policy, Reason: reason})
		}
		page := l.Of(id("job"), after)
		var got []string
		for _, e := range page.Entries {
			text := e.Policy + "." + e.Reason
			if e.Times > 1 {
				text += fmt.Sprint("*", e.Times)
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != step.want || page.Seq < after || page.Known != (i > 0) || page.Entries == nil {
			t.Errorf("step %d: %q, up to %d, want %q", i, got, page.Seq, step.want)
		}
		after = page.Seq
	}
	if page := l.Of(id("job"), after+1000); !page.Known || len(page.Entries) != 0 || page.Seq != after {
		t.Errorf("after a number of an earlier server: %+v", page)
	}
}

// TestForgottenPolicies forgets the policy whose last decision is the oldest, and keeps the others of its
// job. After another decision, its log has that one alone.
func TestForgottenPolicies(t *testing.T) {
	l := decisions.New(time.Time{})
	add := func(job, policy string) { l.Add(id(job), decisions.Entry{Policy: policy}) }
	add("job", "gang")
	add("job", "gang")
	add("job", "spread")
	for i := range decisions.MaxPolicies - 1 {
		add(fmt.Sprint(i), "gang")
	}
	if page := l.Of(id("job"), 0); !page.Known || len(page.Entries) != 1 || page.Entries[0].Policy != "spread" {
		t.Errorf("%+v", page)
	}
	add("job", "gang")
	if page := l.Of(id("job"), 0); len(page.Entries) != 1 || page.Entries[0].Policy != "gang" || page.Entries[0].Times != 1 || page.Entries[0].Seq != page.Seq {
		t.Errorf("%+v", page)
	}
}
