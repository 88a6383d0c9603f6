package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/execution"
)

// DefaultClockSkew is how far the wall clocks of machines may be apart that are kept by
// NTP.
const DefaultClockSkew = 500 * time.Millisecond

// Executions is what the logs of nodes prove of what ran.
type Executions struct {
	// Executions is how many processes were started, or tried to be, Tasks of how
	// many tasks.
	Executions int `json:"executions"`
	Tasks      int `json:"tasks"`
	// Running is how many have not ended, and Unknown how many ended at a time that
	// nobody knows, as their machine was started again.
	Running int `json:"running"`
	Unknown int `json:"unknown"`
	// BadLines are lines of the logs that are no records: what a crash tore.
	BadLines int `json:"badLines"`
	// Findings are what is wrong; none is the rule.
	Findings []Finding `json:"findings"`
}

// CheckExecutions validates NeverTwice over the logs of nodes: what was noted on each, in
// the order in which it was. Between machines, or boots of one, clocks may differ by skew.
func CheckExecutions(logs [][]execution.Record, skew time.Duration) Executions {
	report := Executions{Findings: []Finding{}}
	found := func(x *run, format string, args ...any) {
		report.Findings = append(report.Findings, Finding{
			Guarantee: NeverTwice, Object: "task " + x.start.Namespace + "/" + x.start.Task,
			Revision: x.start.Revision, Text: types.Textf(format, args...),
		})
	}
	tasks := make(map[id][]*run)
	for _, log := range logs {
		for _, x := range runsOf(log, found) {
			at := id{x.start.Namespace, x.start.Task}
			tasks[at] = append(tasks[at], x)
			report.Executions++
			switch x.last {
			case stillRuns:
				report.Running++
			case notKnown:
				report.Unknown++
			}
		}
	}
	report.Tasks = len(tasks)
	for _, runs := range tasks {
		noneOverlaps(runs, skew, found)
	}
	sorted(report.Findings)
	return report
}

// run is a process that a node ran, from before its start until it was seen to have
// ended, or tried to run.
type run struct {
	start, end execution.Record
	last       knowledge
	// ran tells that there was a process for certain.
	ran bool
}

// knowledge is what is known of an end.
type knowledge int

const (
	stillRuns knowledge = iota // as far as is known
	ended                      // at end, or before
	notKnown                   // before end, the boot of the machine after it
)

// runsOf returns what a node ran.
func runsOf(log []execution.Record, found func(*run, string, ...any)) []*run {
	var all []*run
	current := make(map[execution.Key]*run)
	for _, r := range log {
		x := current[r.Key()]
		switch {
		case r.Event == execution.Start && x != nil && x.last == stillRuns && x.start.BootID == r.BootID:
			// It is tried again: the first try may have begun it.
		case r.Event == execution.Start && x != nil && x.start.At == r.At && x.start.BootID == r.BootID:
			// It was taken along when the log was put aside.
		case r.Event == execution.Start:
			if x != nil && x.ran {
				found(x, "%s was run a second time as restart %d, at %s, after it had ended at %s",
					x.name(), r.Restart, clock(&r), clock(&x.end))
			}
			current[r.Key()] = &run{start: r, end: r}
			all = append(all, current[r.Key()])
		case x == nil: // Its start is in a log that was put aside long ago.
		case x.last == stillRuns || r.Event == execution.Kill && r.Ran:
			// A process that was killed lived until then, whatever was noted before.
			x.end, x.last = r, ended
			x.ran = x.ran || r.Ran
			if r.BootID != x.start.BootID {
				x.endedWithBoot(&r)
			}
		default:
			x.ran = x.ran || r.Ran
		}
	}
	for _, x := range all {
		x.outlastedByBoot(log)
	}
	return all
}

// outlastedByBoot notes of a run without an end that the machine was booted after it.
func (x *run) outlastedByBoot(log []execution.Record) {
	if x.last != stillRuns {
		return
	}
	for _, r := range log {
		if r.BootID != x.start.BootID && r.At > x.start.At {
			x.endedWithBoot(&r)
			return
		}
	}
}

// endedWithBoot notes that the machine was booted after it, before r.
func (x *run) endedWithBoot(r *execution.Record) {
	x.last = notKnown
	x.end.At, x.end.Boot, x.end.BootID = r.At-int64(r.Boot), 0, r.BootID
}

// noneOverlaps checks the runs of one task.
func noneOverlaps(runs []*run, skew time.Duration, found func(*run, string, ...any)) {
	slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.start.At, b.start.At) })
	var before []*run // those that may not have ended when the next one started
	for _, x := range runs {
		kept := before[:0]
		for _, y := range before {
			if by := overlap(y, x, skew); by > 0 {
				found(x, "%s started at %s, and %s %s", x.name(), clock(&x.start), y.name(), y.until(by))
			}
			if !y.before(x, skew) {
				kept = append(kept, y)
			}
		}
		before = append(kept, x)
	}
}

// overlap is for how long two runs were noted as running at the same time, beyond what
// clocks may differ by. What ended at a time that nobody knows proves nothing.
func overlap(y, x *run, skew time.Duration) time.Duration {
	if y.last == notKnown || x.last == notKnown {
		return 0
	}
	wall := func(r *execution.Record) time.Duration { return time.Duration(r.At) }
	at := wall
	if oneClock(y, x) {
		at, skew = func(r *execution.Record) time.Duration { return r.Boot }, 0
	}
	const forever = time.Duration(1<<63 - 1)
	end := func(x *run) time.Duration {
		if x.last == stillRuns {
			return forever
		}
		return at(&x.end)
	}
	both := min(end(y), end(x)) - max(at(&y.start), at(&x.start))
	return both - skew
}

// oneClock reports whether the boot clock of one boot tells when each began and ended.
func oneClock(y, x *run) bool { return y.start.BootID == x.start.BootID && y.start.BootID != "" }

// before reports whether x ended so long before another began that it did before all
// that began later, too.
func (x *run) before(later *run, skew time.Duration) bool {
	if x.last != ended || oneClock(x, later) && x.end.Boot > later.start.Boot {
		return false
	}
	return x.end.At+int64(2*skew) < later.start.At
}

func (x *run) name() string {
	text := fmt.Sprintf("attempt %d on %s (container %s)", x.start.Attempt, x.start.Node, x.start.Container)
	if x.start.Restart > 0 {
		text = fmt.Sprintf("restart %d of %s", x.start.Restart, text)
	}
	return text
}

func (x *run) until(by time.Duration) string {
	if x.last == stillRuns {
		return "of " + clock(&x.start) + " is not known to have ended"
	}
	return fmt.Sprintf("ran from %s until %s: %s at the same time", clock(&x.start), clock(&x.end), by)
}

// clock writes when something was noted, by both clocks.
func clock(r *execution.Record) string {
	return fmt.Sprintf("%s (boot %.8s + %s)", time.Unix(0, r.At).UTC().Format("2006-01-02T15:04:05.000Z"), r.BootID, r.Boot.Round(time.Millisecond))
}
