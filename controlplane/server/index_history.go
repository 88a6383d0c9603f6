package server

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/history"
	"github.com/escher-sched/escher/types"
)

const (
	// historyGap is the least time between two writes of a history: those in between are one.
	historyGap = 10 * time.Second
	// maxHistories bounds the histories of a namespace, and oldHistory is how long one lasts after its
	// last run: then its runs count a thousandth.
	maxHistories = 1000
	oldHistory   = 10 * history.HalfLife
	// fewRuns is how many runs show that a name comes again.
	fewRuns = 3
	// maxUncounted bounds the runs that are kept to be counted. Beyond it the oldest are forgotten.
	maxUncounted = 100_000
)

// histories are those of past runs.
type histories struct {
	known map[historyName]*pastRuns
	// open are those with runs to count.
	open map[*pastRuns]struct{}
	// names holds each name once.
	names map[string]string
	// unnamed are runs of tasks that are not known yet, or whose job is not.
	unnamed []unnamedRun
	// looked is when old ones were looked for.
	looked time.Time
}

// historyName names a history within its namespace.
type historyName struct{ ns, name string }

// pastRuns is a history, or only runs of its name.
type pastRuns struct {
	of  historyName
	mod int64
	// value is nil if it cannot be read, or does not exist.
	value *types.History
	// runs are those to count, in any order.
	runs []endedRun
	// written is when it was written last, asked whether a step for it was returned since it changed.
	written time.Time
	asked   bool
}

// endedRun is a run with the revision of the status that told of it.
type endedRun struct {
	mod int64
	run history.Run
}

type unnamedRun struct {
	task *task
	endedRun
}

func newHistories() histories {
	return histories{known: make(map[historyName]*pastRuns), open: make(map[*pastRuns]struct{}), names: make(map[string]string)}
}

func (h *pastRuns) key() string { return controlplane.HistoryKey(h.of.ns, h.of.name) }

// requeue makes the next pass consider a history.
func (h *pastRuns) requeue(*index) { h.asked = false }

func (x *index) applyHistory(k controlplane.Key, e controlplane.Event) {
	h := x.past(historyName{k.Namespace, k.ID})
	h.asked, h.mod, h.value = false, 0, nil
	if !e.Delete {
		h.mod = e.ModRevision
		if value := new(types.History); types.Decode(e.Value, value) == nil {
			h.value = value
			h.runs = slices.DeleteFunc(h.runs, func(r endedRun) bool { return r.mod <= value.Through })
		}
	}
	x.tidyHistory(h)
}

// past returns a history. Names are parts of keys, which they would keep in memory.
func (x *index) past(of historyName) *pastRuns {
	h := x.histories.known[of]
	if h == nil {
		h = &pastRuns{of: historyName{strings.Clone(of.ns), strings.Clone(of.name)}}
		x.histories.known[h.of] = h
	}
	return h
}

// tidyHistory drops a history without a value and without runs.
func (x *index) tidyHistory(h *pastRuns) {
	if len(h.runs) == 0 {
		delete(x.histories.open, h)
		if h.mod == 0 {
			delete(x.histories.known, h.of)
		}
	}
}

// nameOf returns the name of the history of a task without a job, or with a name of its own: that of its
// label, or its own. Empty means that of its job.
func (hs *histories) nameOf(t *types.Task) string {
	name := history.Name(t, "")
	if name == "" {
		return ""
	}
	if _, ok := hs.names[name]; !ok {
		if len(hs.names) >= maxHistories {
			clear(hs.names)
		}
		name = strings.Clone(name)
		hs.names[name] = name
	}
	return hs.names[name]
}

// ran keeps the run that a status tells of, to be counted.
func (x *index) ran(t *task, status *types.Status, now time.Time) {
	run, ok := history.RunOf(status)
	if !ok || t.ran == t.statusMod {
		return
	}
	run.Ended = min(run.Ended, now.UnixNano()) // the clock of its node may be ahead
	t.ran = t.statusMod
	x.keepRun(t, endedRun{t.statusMod, run})
}

// keepRun lists a run under its history, if that has a name.
func (x *index) keepRun(t *task, r endedRun) {
	name := t.name
	switch {
	case name != "":
	case t.mod == 0, t.job != nil && t.job.mod == 0: // They come from other watches.
		x.histories.unnamed = append(x.histories.unnamed[max(0, len(x.histories.unnamed)+1-maxUncounted):], unnamedRun{t, r})
		return
	case t.job != nil:
		name = t.job.name
	}
	if name == "" {
		return
	}
	h := x.past(historyName{t.space.name, name})
	if h.mod != 0 && h.value == nil || h.value != nil && h.value.Through >= r.mod && h.value.Through <= h.mod {
		return // It cannot be counted, or it is.
	}
	h.runs = append(h.runs[max(0, len(h.runs)+1-maxUncounted):], r)
	x.histories.open[h] = struct{}{}
}

// countRuns counts the runs that have ended in their histories, and drops old histories.
func (l *pass) countRuns() {
	l.nameRuns()
	for h := range l.histories.open {
		if l.enough() {
			return
		}
		if h.asked || l.now.Sub(h.written) < historyGap || h.mod != 0 && h.value == nil {
			continue // A value of a later version stays as it is.
		}
		l.at = h.key()
		l.count(h)
	}
	if l.now.Sub(l.histories.looked) >= historyGap {
		l.histories.looked = l.now
		l.oldHistories()
	}
}

// nameRuns lists the runs whose tasks and jobs are known now, and forgets those whose tasks are gone.
func (l *pass) nameRuns() {
	unnamed := l.histories.unnamed
	l.histories.unnamed = nil
	for _, r := range unnamed {
		if r.task.mod != 0 || r.mod > l.revision {
			l.keepRun(r.task, r.endedRun)
		}
	}
}

// count adds a step that counts the known runs of a history.
func (l *pass) count(h *pastRuns) {
	value, runs, through := new(types.History), []history.Run(nil), int64(0)
	if h.value != nil {
		*value = *h.value
		value.Length, value.CPU, value.Memory = slices.Clone(value.Length), slices.Clone(value.CPU), slices.Clone(value.Memory)
	}
	for _, r := range h.runs {
		if r.mod <= l.revision {
			runs, through = append(runs, r.run), max(through, r.mod)
		}
	}
	if len(runs) == 0 {
		return
	}
	history.Add(value, runs, through)
	h.asked, h.written = true, l.now
	l.add(counted, h.key(), h, unchanged(h.key(), h.mod)).put = value
}

// oldHistories drops histories without recent runs, and of a namespace that has too many those of names
// that hardly come again, and the oldest.
func (l *pass) oldHistories() {
	of := make(map[string][]*pastRuns)
	for _, h := range l.histories.known {
		if h.value != nil && !h.asked {
			of[h.of.ns] = append(of[h.of.ns], h)
		}
	}
	for _, all := range of {
		slices.SortFunc(all, func(a, b *pastRuns) int {
			return cmp.Or(cmp.Compare(min(a.value.Runs, fewRuns), min(b.value.Runs, fewRuns)), cmp.Compare(a.value.Last, b.value.Last))
		})
		for i, h := range all {
			if l.enough() {
				return
			}
			if len(all)-i <= maxHistories && l.now.Sub(time.Unix(0, h.value.Last)) < oldHistory {
				continue
			}
			h.asked = true
			l.remove(oldRuns, h.key(), h.mod, h)
		}
	}
}
