package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/execution"
)

// DefaultClockSkew is the largest difference of wall clocks under NTP.
const DefaultClockSkew = 500 * time.Millisecond

// Executions is the result of auditing nodes' logs of executions.
type Executions struct {
	// Executions is the number of processes started, or attempted, and Tasks the number of their
	// tasks.
	Executions int `json:"executions"`
	Tasks      int `json:"tasks"`
	// Running is the number that have not ended. Unknown is the number that ended at an unknown
	// time, because their machine restarted.
	Running int `json:"running"`
	Unknown int `json:"unknown"`
	// BadLines is the number of invalid log lines, such as lines torn by a crash.
	BadLines int `json:"badLines"`
	// Findings are the violations; usually there are none.
	Findings []Finding `json:"findings"`
}

// CheckExecutions validates NeverTwice over the logs of nodes, each in order. Clocks of different
// machines, or boots, may differ by skew.
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

// run is a process that a node ran or tried to run, from before its start until it was seen to have
// ended.
type run struct {
	start, end execution.Record
	last       knowledge
	// ran reports whether a process certainly existed.
	ran bool
}

// knowledge is the knowledge about an end.
type knowledge int

const (
	stillRuns knowledge = iota // as far as is known
	ended                      // at end, or before
	notKnown                   // before end, which is the next boot of the machine
)

// runsOf returns the runs of a node.
func runsOf(log []execution.Record, found func(*run, string, ...any)) []*run {
	var all []*run
	current := make(map[execution.Key]*run)
	for _, r := range log {
		x := current[r.Key()]
		switch {
		case r.Event == execution.Start && x != nil && x.last == stillRuns && x.start.BootID == r.BootID:
			// A repeated start: the first try may have started it.
		case r.Event == execution.Start && x != nil && x.start.At == r.At && x.start.BootID == r.BootID:
			// The start was copied when the log was rotated.
		case r.Event == execution.Start:
			if x != nil && x.ran {
				found(x, "%s was run a second time as restart %d, at %s, after it had ended at %s",
					x.name(), r.Restart, clock(&r), clock(&x.end))
			}
			current[r.Key()] = &run{start: r, end: r}
			all = append(all, current[r.Key()])
		case x == nil: // Its start is in a log that was rotated away.
		case x.last == stillRuns || r.Event == execution.Kill && r.Ran:
			// A killed process lived until then, whatever was recorded before.
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

// outlastedByBoot ends a run without an end if the machine booted after it.
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

// endedWithBoot records that the machine booted after the run, before r.
func (x *run) endedWithBoot(r *execution.Record) {
	x.last = notKnown
	x.end.At, x.end.Boot, x.end.BootID = r.At-int64(r.Boot), 0, r.BootID
}

// noneOverlaps checks the runs of one task.
func noneOverlaps(runs []*run, skew time.Duration, found func(*run, string, ...any)) {
	slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.start.At, b.start.At) })
	var before []*run // runs that may not have ended when the next one started
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

// overlap returns the time that two runs were recorded as running at once, beyond the possible
// difference of clocks. A run with an unknown end proves nothing.
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

// oneClock reports whether one boot clock measured both runs.
func oneClock(y, x *run) bool { return y.start.BootID == x.start.BootID && y.start.BootID != "" }

// before reports whether x ended so long before later began that it also ended before all runs that
// began after later.
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

// clock formats the time of a record, by both clocks.
func clock(r *execution.Record) string {
	return fmt.Sprintf("%s (boot %.8s + %s)", time.Unix(0, r.At).UTC().Format("2006-01-02T15:04:05.000Z"), r.BootID, r.Boot.Round(time.Millisecond))
}
