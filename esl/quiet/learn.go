package quiet

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// What is known of kinds. A task of a kind loses a part of its time alone, and a further part for each other
// kind on its node. A sample says how much it lost in all; the difference from what was expected is divided
// among these parts, the least known first: a Kalman filter whose covariances are 0. So a kind that is known
// as harmless is not blamed for a new one.
//
// A part is a pool: whole percents, and the number of samples as thousandths. 43.012 is 43 % by 12 samples.

const (
	// alone is the name in place of another kind of the part that a kind loses without one.
	alone = "alone"
	// enough is how many samples make a pair known, and most how many count: with more, later ones count
	// as much as the last.
	enough, most = 2, 20
	// noise is the variance of a sample, and ofAlone that of what a kind loses alone, of which no sample is
	// known; that of a pair is 1.
	noise, ofAlone = 0.25, 0.25
	// visible is the change of a part that is worth a write when it is known well.
	visible = 0.02
	// mostParts bounds what is known: others are learned when some of it is forgotten.
	mostParts = 400
	// round is the least time between two times of learning. A part loses a sample each fade.
	round = 5 * time.Second
	fade  = 30 * time.Minute
	// soon is how often a node is asked where a pair is not known well, later how often others are.
	// perSecond bounds how many are asked later.
	soon, later = 5 * time.Second, 30 * time.Second
	perSecond   = 250
	known       = 8
)

// entry is one part that is known.
type entry struct {
	lost float64
	n    int
}

// entry returns what is known of a pair.
func (w *world) entry(of, other string) entry {
	key := pairName(of, other)
	e, cached := w.entries[key]
	if !cached {
		e = entryOf(w.pool(key))
		w.entries[key] = e
	}
	return e
}

// entryOf reads a pool.
func entryOf(q types.Quantity) entry {
	return entry{min(1, float64(q/esl.One)/100), int(min(most, q%esl.One))}
}

// quantity returns the amount of the pool.
func (e entry) quantity() types.Quantity {
	return types.Quantity(math.Round(100*e.lost))*esl.One + types.Quantity(e.n)
}

func (e entry) variance(of string) float64 {
	if of == alone {
		return ofAlone / float64(e.n+1)
	}
	return 1 / float64(e.n+1)
}

// count adds a sample: a task of a kind lost so much next to others.
func (w *world) count(of string, others []string, lost float64) {
	sum, expected := noise, 0.0
	parts := append([]string{alone}, others...)
	for _, other := range parts {
		e := w.entry(of, other)
		sum, expected = sum+e.variance(other), expected+e.lost
	}
	for _, other := range parts {
		e := w.entry(of, other)
		e.lost = min(1, max(0, e.lost+(lost-expected)*e.variance(other)/sum))
		e.n = min(most, e.n+1)
		w.entries[pairName(of, other)] = e
	}
}

// learn returns the plan that stores what nodes have measured since the last time.
func (w *world) learn() esl.Plan {
	if plan := w.forget(); !plan.Nothing() {
		return plan
	}
	last, _ := w.timeOf(learned)
	if w.s.Now.Before(last.Add(round)) {
		return esl.Plan{} // an answer calls it again
	}
	before := make(map[string]entry)
	for _, x := range w.sites {
		w.countSite(x, last, before)
	}
	plan := esl.Plan{Reason: "more is known of what slows what"}
	after := maps.Clone(w.entries)
	changed := slices.SortedFunc(maps.Keys(before), func(a, b string) int {
		return cmp.Or(cmp.Compare(before[a].n, before[b].n), strings.Compare(a, b))
	})
	free := math.MaxInt
	if len(changed) > 0 && before[changed[0]].n == 0 {
		free = mostParts - len(w.parts())
	}
	for _, key := range changed {
		was, is := before[key], after[key]
		if was.n == 0 {
			if free--; free < 0 {
				continue
			}
		}
		if was.n < most && was.n < is.n || math.Abs(was.lost-is.lost) >= visible {
			plan.Set = append(plan.Set, w.set(key, is.quantity()))
		}
	}
	plan.Set = plan.Set[:min(len(plan.Set), max(1, w.s.MaxChanges()-2))]
	if !plan.Nothing() {
		plan.Set = append(plan.Set, w.set(learned, esl.Stamp(w.s.Now)))
		w.s.TakeTurn(&plan)
	}
	return plan
}

// countSite counts what the guarded tasks of a node have lost since a time, if its answer is about exactly
// the tasks that it has. It adds the parts that change, as they were, to before.
func (w *world) countSite(x *site, since time.Time, before map[string]entry) {
	u := w.s.Usage(x.node.Name)
	if u == nil || !u.Steady || !u.Received.After(since) {
		return
	}
	n := 0
	for _, g := range x.here {
		for _, b := range g.bindings {
			if u.Attempts[esl.AttemptOf(b)] == nil {
				return
			}
			n++
		}
	}
	if n != len(u.Attempts) {
		return
	}
	for _, k := range taskset.SortedKeys(x.here) {
		lost, ok := meanLost(u, x.here[k].bindings)
		if !w.guarded[k] || !ok {
			continue
		}
		others := w.others(x, k)
		for _, other := range append([]string{alone}, others...) {
			key := pairName(k, other)
			if _, counted := before[key]; !counted {
				before[key] = w.entry(k, other)
			}
		}
		w.count(k, others, lost)
	}
}

// meanLost returns how much of their time tasks have lost.
func meanLost(u *esl.NodeUsage, bindings []*cluster.Binding) (lost float64, ok bool) {
	n := 0
	for _, b := range bindings {
		if used := u.Attempts[esl.AttemptOf(b)]; used.Over >= time.Second {
			lost, n = lost+used.Lost, n+1
		}
	}
	return lost / float64(max(1, n)), n > 0
}

// others returns the kinds next to a task of a kind on a node.
func (w *world) others(x *site, k string) []string {
	out := taskset.SortedKeys(x.here)
	if len(x.here[k].bindings) < 2 {
		out = slices.DeleteFunc(out, func(other string) bool { return other == k })
	}
	return out
}

// forget returns the plan that takes a sample from what is known, some of it at a time, and drops what has
// none left. So a pair that is kept apart is tried again after a time.
func (w *world) forget() esl.Plan {
	last, ok := w.timeOf(faded)
	if ok && w.s.Now.Before(last.Add(fade)) {
		w.later(last.Add(fade))
		return esl.Plan{}
	}
	all := w.parts()
	if len(all) == 0 && (ok || !w.live) {
		return esl.Plan{}
	}
	plan := esl.Plan{Reason: "what was not measured for long is known less"}
	batch := max(1, w.s.MaxChanges()-2)
	turns := (len(all) + batch - 1) / batch
	if turns > 0 && ok {
		from := int(w.s.Now.Unix()/int64(fade.Seconds())%int64(turns)) * batch
		for _, key := range all[from:min(len(all), from+batch)] {
			e := w.entries[key]
			if e.n--; e.n <= 0 {
				e = entry{}
			}
			plan.Set = append(plan.Set, w.set(key, e.quantity()))
		}
	}
	plan.Set = append(plan.Set, w.set(faded, esl.Stamp(w.s.Now)))
	w.s.TakeTurn(&plan)
	return plan
}

// parts returns the names of all that is known, sorted, and reads it.
func (w *world) parts() (keys []string) {
	prefix := string(types.Resolve(w.s.Namespace, w.s.Own(""))) + "."
	for id, p := range w.s.View.Pools {
		key, ok := strings.CutPrefix(string(id), prefix)
		if ok && strings.Contains(key, ".") && p.Info.V != nil && p.Info.V.Capacity > 0 {
			w.entries[key] = entryOf(p.Info.V.Capacity)
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// later has the policy called at a time.
func (w *world) later(at time.Time) { w.again = taskset.Earliest(w.again, at) }

// ask returns the nodes to ask, and how often: those with a guarded kind.
func (w *world) ask() map[string]time.Duration {
	if !w.live {
		return nil
	}
	rarely := max(later, time.Duration(len(w.sites))*time.Second/perSecond)
	out := make(map[string]time.Duration)
	for _, x := range w.sites {
		for k := range x.here {
			if !w.guarded[k] {
				continue
			}
			if out[x.node.Name] == 0 {
				out[x.node.Name] = rarely
			}
			for _, other := range append([]string{alone}, w.others(x, k)...) {
				if w.entry(k, other).n < known {
					out[x.node.Name] = soon
				}
			}
		}
	}
	return out
}
