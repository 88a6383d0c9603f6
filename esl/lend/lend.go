package lend

import (
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// The engine of this package: what guests request, what each node lends, and which guests give it back.

const (
	kind = "oversubscribe"
	// ofCPU and ofMemory are the suffixes of the names of what is lent: processors, and MiB.
	ofCPU    = "cpu"
	ofMemory = "memory"
	// mib is how many bytes are one of what is lent.
	mib = 1 << 20
	// busy and calm are how often a node with guests is asked, and one without.
	busy = 2 * time.Second
	calm = 10 * time.Second
	// askedPerSecond bounds how often nodes without guests are asked: the more, the less often each.
	askedPerSecond = 250
	// steps is in how many steps of its capacity what a node lends changes: each change is a write.
	steps = 50
)

// lent is one of the two resources that a node lends, and the physical one that it is a part of.
type lent struct {
	name   string
	id, of types.ResourceID
}

// lents returns both.
func lents(s *esl.State) [2]lent {
	cpu, memory := s.Own(ofCPU), s.Own(ofMemory)
	return [2]lent{
		{cpu, types.Resolve(s.Namespace, cpu), types.CPU},
		{memory, types.Resolve(s.Namespace, memory), types.Memory},
	}
}

// floor returns an amount of the physical resource as one of what is lent, rounded down.
func (l lent) floor(amount types.Quantity) types.Quantity {
	if l.of == types.Memory {
		return amount / mib * esl.One
	}
	return amount
}

// physical is the inverse of floor.
func (l lent) physical(amount types.Quantity) types.Quantity {
	if l.of == types.Memory {
		return amount / esl.One * mib
	}
	return amount
}

// borrow has the tasks of a group request what the policy id lends instead of cpu and memory, and limits
// their memory to that.
func borrow(g *esl.Group, id string) error {
	type limited struct {
		spec   *types.Spec
		memory types.Quantity
	}
	specs := make(map[limited]*types.Spec)
	for i := range g.Tasks {
		t := &g.Tasks[i]
		cpu, memory := t.Task.Requests.Get(string(types.CPU)), t.Task.Requests.Get(string(types.Memory))
		switch {
		case cpu <= 0 || memory <= 0:
			return esl.Invalid("tasks[%d].requests: has cpu %s and memory %s, and a guest borrows both: give more than 0 of each", i, cpu.Format(types.CPU), memory.Format(types.Memory))
		case slices.ContainsFunc(t.Task.Alternatives, func(a types.Alternative) bool {
			return slices.ContainsFunc(a.Requests, isPhysical)
		}):
			return esl.Invalid("tasks[%d].alternatives: request cpu or memory, which a guest borrows: move them to requests", i)
		case t.Spec == nil:
			return esl.Invalid("tasks[%d].spec: is stored already, and a guest has a limit of memory of its own: submit it with the task", i)
		}
		own := slices.DeleteFunc(slices.Clone(t.Task.Requests), isPhysical)
		mibs := (memory + mib - 1) / mib
		t.Task.Requests = own.Plus(types.NewRequests(map[string]types.Quantity{esl.OwnName(id, kind, ofCPU): cpu, esl.OwnName(id, kind, ofMemory): mibs * esl.One}))
		like := limited{t.Spec, memory}
		if specs[like] == nil {
			spec := *t.Spec
			spec.MemoryLimit = memory
			specs[like] = &spec
		}
		t.Spec = specs[like]
	}
	return nil
}

// isPhysical reports whether a request is for what guests borrow.
func isPhysical(r types.Request) bool {
	return r.Name == string(types.CPU) || r.Name == string(types.Memory)
}

// hasGuests reports whether a task of a job that uses the policy has not ended.
func hasGuests(s *esl.State) bool {
	for job := range s.Referring() {
		if slices.ContainsFunc(s.JobTasks(job), func(t *cluster.Task) bool { return !t.Phase().Ended() }) {
			return true
		}
	}
	return false
}

// ask returns the nodes to ask, and how often.
func ask(s *esl.State) map[string]time.Duration {
	if !hasGuests(s) {
		return nil
	}
	both, nodes := lents(s), s.Nodes()
	rarely := max(calm, time.Duration(len(nodes))*time.Second/askedPerSecond)
	out := make(map[string]time.Duration, len(nodes))
	for _, n := range nodes {
		out[n.Name] = rarely
		if n.Used(both[0].id) > 0 {
			out[n.Name] = busy
		}
	}
	return out
}

// usage is what a node has of a physical resource: all of it, what owners leave idle, and what guests
// hold, those without that are leaving. others is what guests of other such policies hold.
type usage struct{ capacity, idle, held, others types.Quantity }

// use returns the usage of what a node lends; known is false if the node has not told what is used.
func use(s *esl.State, n *cluster.Node, both [2]lent) (of [2]usage, known bool) {
	told := s.Usage(n.Name)
	for i, l := range both {
		of[i].capacity, _ = s.View.Capacity(n, l.of)
		of[i].idle = of[i].capacity
	}
	var byGuests types.Quantity
	for _, b := range n.Bindings {
		if b.Info.V == nil {
			continue
		}
		var used *esl.Used
		if told != nil {
			used = told.Attempts[esl.AttemptOf(b)]
		}
		if isGuest(b, both) {
			for i, l := range both {
				if !leaves(b) {
					of[i].held += l.physical(b.Info.V.Amount(l.id))
				}
			}
			if used != nil {
				byGuests += max(0, used.Memory)
			}
			continue
		}
		for i, l := range both {
			if other := byOthers(b, l); other > 0 {
				of[i].others += other
				continue
			}
			of[i].idle -= claim(s, b, l, used)
		}
	}
	// What the kernel and other programs have cannot be lent. Guests give back what they have.
	if told != nil && told.Machine != nil && told.Machine.Memory >= 0 && told.MachineMemory > 0 {
		of[1].idle = min(of[1].idle, told.MachineMemory-told.Machine.Memory+byGuests)
	}
	return of, told != nil
}

// isGuest reports whether an attempt holds some of what is lent.
func isGuest(b *cluster.Binding, both [2]lent) bool {
	return b.Info.V.Amount(both[0].id) > 0 || b.Info.V.Amount(both[1].id) > 0
}

// leaves reports whether an attempt is being ended.
func leaves(b *cluster.Binding) bool {
	return b.Task.Info.V == nil || b.Task.Status.V == nil || taskset.Leaving(b.Task)
}

// byOthers returns how much a guest of another policy holds of a resource.
func byOthers(b *cluster.Binding, l lent) types.Quantity {
	for _, h := range b.Info.V.Holds {
		if strings.HasSuffix(string(h.Resource), "."+kind+"."+string(l.of)) {
			return l.physical(h.Amount)
		}
	}
	return 0
}

// claim returns how much of a resource counts as used by an owner: its recent peak, or all that it
// requests if that is not known. It counts as having used all of that when it came. Of processors the
// claim is at most the request: an owner has no right to more.
func claim(s *esl.State, b *cluster.Binding, l lent, used *esl.Used) types.Quantity {
	requested := b.Info.V.Amount(l.of)
	if used == nil {
		return requested
	}
	peak := used.PeakCPU
	if l.of == types.Memory {
		peak = used.PeakMemory
	}
	if peak.Amount == esl.Unknown {
		return requested
	}
	came := esl.Peak{Amount: requested, At: time.Unix(0, b.Info.V.Bound)}
	counts := max(peak.Counts(used.At), came.Counts(s.Now))
	if l.of == types.CPU {
		return min(counts, requested)
	}
	return counts
}

// next evicts the guests that hold more than amount says, where no more than that is lent by now.
// Without any, it sets what nodes lend to the amount.
func next(s *esl.State, amount func(usage) types.Quantity) esl.Plan {
	both, guests := lents(s), hasGuests(s)
	plan := esl.Plan{Reason: "owners use more, or less, than before", Idle: "no guest waits or runs"}
	if guests {
		plan.Idle = "each node lends what its owners leave idle"
		plan.RequeueAfter = s.Now.Add(calm) // no change tells that an answer has become old
	}
	var raise []controlplane.Resource
	for _, n := range byName(s) {
		if n.Alive.V == nil {
			continue // what it lent ended with its session
		}
		of, known := use(s, n, both)
		var short [2]types.Quantity
		for i, l := range both {
			is, _ := s.View.Capacity(n, l.id)
			want, step := types.Quantity(0), l.floor(of[i].capacity/steps)
			switch held := n.Used(l.id); {
			case !guests:
			case !known || !n.Eligible():
				want = min(is, held)
			default:
				// Guests of another policy take part in what is lent, and do not drive out others.
				keep, less, hold := l.floor(amount(of[i])), of[i], l.floor(of[i].held)
				less.idle -= less.others
				want = l.floor(amount(less))
				if over := want % max(1, step); want > hold {
					want = max(hold, want-over)
				} else if want < hold {
					want -= over
				}
				if short[i] = hold - max(want, keep); is > want {
					short[i] = 0 // it lends less first, so that no other guest comes
				}
			}
			set := controlplane.Resource{Name: l.name, Capacity: want, Where: controlplane.OnNode(n.Name), Options: controlplane.SetOptions{Declare: want > 0}}
			switch {
			case want < is:
				plan.Set = append(plan.Set, set)
			case want >= is+2*step && want > is:
				raise = append(raise, set)
			}
		}
		plan.Evict = append(plan.Evict, surplus(n, both, short, s.ID)...)
	}
	if most := s.MaxChanges(); len(plan.Evict) > 0 {
		plan.Set, plan.Evict, plan.Reason = nil, plan.Evict[:min(most, len(plan.Evict))], "owners want back what is lent"
	} else {
		plan.Set = append(plan.Set, raise...)
		plan.Set = plan.Set[:min(most, len(plan.Set))]
	}
	return plan
}

// byName returns all nodes, sorted.
func byName(s *esl.State) []*cluster.Node {
	out := make([]*cluster.Node, 0, len(s.View.Nodes))
	for _, n := range s.View.Nodes {
		out = append(out, n)
	}
	esl.SortNodes(out)
	return out
}
