package audit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/types/execution"
)

// node records the runs of a node. Times are in seconds of the boot clock, and of the wall clock
// plus ahead.
type node struct {
	name, boot string
	ahead      time.Duration
	log        []execution.Record
}

func (n *node) note(event execution.Event, attempt, restart int, at float64, ran bool) {
	boot := time.Duration(at * float64(time.Second))
	r := execution.Record{
		Event: event, Container: n.name + "/" + string(rune('0'+attempt)), Restart: restart,
		Node: n.name, Namespace: "d", Task: "a", Attempt: attempt, Ran: ran,
	}
	r.Stamp(time.Unix(1000, 0).Add(boot+n.ahead), boot, n.boot)
	n.log = append(n.log, r)
}

func (n *node) start(attempt int, at float64) { n.note(execution.Start, attempt, 0, at, false) }
func (n *node) end(attempt int, at float64)   { n.note(execution.End, attempt, 0, at, true) }
func (n *node) kill(attempt int, at float64)  { n.note(execution.Kill, attempt, 0, at, true) }

// TestNeverTwice checks what the logs of two nodes prove, and what they do not.
func TestNeverTwice(t *testing.T) {
	for _, test := range []struct {
		name string
		// other is the boot of the other machine, and ahead the advance of its clock.
		other string
		ahead time.Duration
		note  func(a, b *node)
		want  string // in the only finding; empty means none
	}{
		{"one after the other", "1", 0, func(a, b *node) { a.start(1, 1); a.end(1, 2); b.start(2, 3); b.end(2, 4) }, ""},
		{"at once", "1", 0, func(a, b *node) { a.start(1, 1); a.end(1, 3.001); b.start(2, 3); b.end(2, 4) }, "attempt 2 on b (container b/2) started at 1970-01-01T00:16:43.000Z (boot 1 + 3s), and attempt 1 on a (container a/1) ran from 1970-01-01T00:16:41.000Z (boot 1 + 1s) until 1970-01-01T00:16:43.001Z (boot 1 + 3.001s): 1ms at the same time"},
		{"within another", "1", 0, func(a, b *node) { a.start(1, 1); a.end(1, 9); b.start(2, 3); b.end(2, 4) }, "1s at the same time"},
		{"one boot counts by the boot clock", "1", -time.Hour, func(a, b *node) { a.start(1, 1); a.end(1, 3.1); b.start(2, 3); b.end(2, 4) }, "100ms at the same time"},
		{"clocks that differ little", "2", -400 * time.Millisecond, func(a, b *node) { a.start(1, 1); a.end(1, 3); b.start(2, 3) }, ""},
		{"more than clocks differ by", "2", -600 * time.Millisecond, func(a, b *node) { a.start(1, 1); a.end(1, 3); b.start(2, 3) }, "100ms at the same time"},
		{"never ended", "1", 0, func(a, b *node) { a.start(1, 1); b.start(2, 30) }, "is not known to have ended"},
		{"killed", "1", 0, func(a, b *node) { a.start(1, 1); a.kill(1, 2); b.start(2, 3) }, ""},
		{"killed too late", "1", 0, func(a, b *node) { a.start(1, 1); a.kill(1, 4); b.start(2, 3); b.end(2, 5) }, "1s at the same time"},
		{"a start that came late, and was killed again", "1", 0, func(a, b *node) {
			a.start(1, 1)
			a.note(execution.End, 1, 0, 2, false)
			b.start(2, 3)
			a.kill(1, 3.5)
		}, "500ms at the same time"},
		{"killed, and found dead by an agent that was frozen", "1", 0, func(a, b *node) { a.start(1, 1); a.kill(1, 2); b.start(2, 3); a.end(1, 9) }, ""},
		{"the machine was started again", "2", 0, func(a, b *node) {
			a.start(1, 1)
			b.start(2, 20)
			a.boot, a.ahead = "3", 60*time.Second
			a.start(3, 1)
			b.end(2, 25)
		}, ""},
		{"its end was noted after the machine was started again", "2", 0, func(a, b *node) {
			a.start(1, 1)
			b.start(2, 20)
			a.boot, a.ahead = "3", 60*time.Second
			a.note(execution.End, 1, 0, 1, false)
			b.end(2, 25)
		}, ""},
		{"killed before it was let run, and run then", "1", 0, func(a, _ *node) {
			a.start(1, 1)
			a.note(execution.Kill, 1, 0, 2, false)
			a.start(1, 3)
			a.end(1, 4)
		}, ""},
		{"run, killed, and run again", "1", 0, func(a, _ *node) { a.start(1, 1); a.kill(1, 2); a.start(1, 3) }, "was run a second time"},
		{"tried again", "1", 0, func(a, b *node) { a.start(1, 1); a.start(1, 2); a.end(1, 3); b.start(2, 1.5); b.end(2, 1.8) }, "300ms at the same time"},
		{"run twice", "1", 0, func(a, _ *node) { a.start(1, 1); a.end(1, 2); a.start(1, 3) }, "attempt 1 on a (container a/1) was run a second time as restart 0"},
		{"not run, and tried again", "1", 0, func(a, _ *node) { a.start(1, 1); a.note(execution.End, 1, 0, 2, false); a.start(1, 3) }, ""},
		{"taken along to another log", "1", 0, func(a, _ *node) { a.start(1, 1); a.end(1, 2); a.start(1, 1) }, ""},
		{"restarts in place", "1", 0, func(a, _ *node) { a.start(1, 1); a.end(1, 2); a.note(execution.Start, 1, 1, 3, false) }, ""},
		{"restarted too early", "1", 0, func(a, _ *node) { a.start(1, 1); a.note(execution.Start, 1, 1, 3, false); a.end(1, 4) }, "restart 1 of attempt 1 on a"},
		{"an end without a start", "1", 0, func(a, b *node) { a.end(1, 9); b.start(2, 3) }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := &node{name: "a", boot: "1"}, &node{name: "b", boot: test.other, ahead: test.ahead}
			test.note(a, b)
			for _, logs := range [][][]execution.Record{{a.log, b.log}, {b.log, a.log}} {
				report := audit.CheckExecutions(logs, audit.DefaultClockSkew)
				var texts []string
				for _, f := range report.Findings {
					if f.Guarantee != audit.NeverTwice || f.Object != "task d/a" {
						t.Errorf("found %+v", f)
					}
					texts = append(texts, f.Text.String())
				}
				if test.want == "" && len(texts) > 0 || test.want != "" && (len(texts) != 1 || !strings.Contains(texts[0], test.want)) {
					t.Errorf("found %q, want %q", texts, test.want)
				}
			}
		})
	}
}

// TestExecutionsCounted checks the counts of known and unknown ends.
func TestExecutionsCounted(t *testing.T) {
	a := &node{name: "a", boot: "1"}
	a.start(1, 1)
	a.start(2, 2)
	a.end(2, 3)
	b := &node{name: "b", boot: "2"}
	b.start(4, 1)
	a.boot, a.ahead = "3", time.Minute
	a.start(3, 1)
	got := audit.CheckExecutions([][]execution.Record{a.log, b.log}, time.Hour)
	if got.Executions != 4 || got.Tasks != 1 || got.Running != 2 || got.Unknown != 1 {
		t.Errorf("%+v", got)
	}
}
