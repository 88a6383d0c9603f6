package room

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// longestSleep bounds the time between two decisions of a policy that makes room, if nothing changes.
const longestSleep = 10 * time.Minute

// nextChange returns when a decision about waiting units changes though the cluster does not: a task is no
// longer spared, or a unit has waited long enough not to wait for leaving tasks.
func (m *making) nextChange(all []taskset.Wish) time.Time {
	at := m.s.Now.Add(longestSleep)
	if !m.spared.IsZero() {
		at = taskset.Earliest(at, m.spared)
	}
	for _, w := range all {
		if until := w.Since.Add(m.within); until.After(m.s.Now) {
			at = taskset.Earliest(at, until)
		}
	}
	for _, t := range m.s.Members() {
		if next := taskset.NextAlternative(m.s, t); taskset.IsWaiting(t) && !next.IsZero() {
			at = taskset.Earliest(at, next)
		}
	}
	return at
}

// seek notes that a node matters where a waiting unit fits, or evictions may make room for it. Of jobs that request the same, one answer holds for all: what is not enough for the first is enough for
// none.
func (p Preempt) seek(s *esl.State, long []taskset.Wish) {
	x := esl.Seeking{Order: long[0].Priority + long[0].Raised, Since: long[0].Since.UnixNano(), Alike: true}
	texts := []string{s.Namespace, p.spare().String(), p.within().String()}
	type want struct {
		needs    []cluster.Need
		priority int
	}
	var wants []want
	for _, w := range long {
		for _, text := range wishTexts(s, w) {
			text = strconv.Itoa(w.Priority) + strings.TrimPrefix(text, w.Job)
			if slices.Contains(texts, text) {
				continue
			}
			texts = append(texts, text)
			for _, b := range slices.Concat(w.Ways...) {
				needs := s.View.BundleNeeds(s.Namespace, b.Requests, b.Devices...)
				taskset.NoteNeeds(s, w.Job, needs)
				wants = append(wants, want{taskset.PhysicalNeeds(needs), w.Priority})
			}
		}
	}
	x.Like = strings.Join(texts, " ")
	ns, job := s.Namespace, s.Job
	x.Take = func(r *match.Room) bool {
		return slices.ContainsFunc(wants, func(w want) bool {
			return r.EverFits(w.needs) && (r.Fits(w.needs) || mayYield(r.Node, ns, job, w.priority, w.needs))
		})
	}
	s.Seek(x)
}

// mayYield reports whether a node has a task of a namespace, of a lower priority and of another job, or
// capacity that a reservation has collected and no task holds yet.
func mayYield(n *cluster.Node, ns, job string, priority int, needs []cluster.Need) bool {
	held := make(map[types.ResourceID]types.Quantity)
	for _, b := range n.Bindings {
		t := b.Task
		if b.Info.V == nil || t.Info.V == nil {
			continue
		}
		if t.ID.Namespace == ns && t.Info.V.Priority < priority && (t.Info.V.Job != job || job == "") {
			return true
		}
		for _, h := range b.Info.V.Holds {
			held[h.Resource.Unscoped()] += h.Amount
		}
	}
	return n.Allocated.V != nil && slices.ContainsFunc(needs, func(x cluster.Need) bool { return n.Allocated.V.Of(x.ID) > held[x.ID] })
}
