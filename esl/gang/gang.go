package gang

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Gang places all tasks of a job at one revision, or none: one reservation has all of their
// requests, and they draw on it. Until then nothing is held for them. A gang that has waited long
// accumulates free capacity, one gang of the cluster at a time.
type Gang struct {
	// PerNode is how many members share a node, as one bundle; 0 means no constraint.
	PerNode int `json:"perNode,omitempty" desc:"how many of the tasks are together on a node; any number if it is left out" zero:"is no task: give how many are together, or leave it out" without:"in=node"`
	// In is the kind of domain that all of them share: node, rack or zone.
	In esl.Domain `json:"in,omitempty" desc:"puts all tasks into one node, rack or zone; anywhere if it is left out"`
	// Loss says what happens to the gang when a member fails, or is lost with its node.
	Loss esl.Loss `json:"onLoss,omitempty" desc:"when a task fails, or its node is lost; fail if it is left out"`
	// Restarts is how often a member may fail before the gang fails; 0 means 3.
	Restarts int `json:"restarts,omitempty" desc:"how often a task may fail before all of them do, unless onLoss is fail; 3 if it is left out" zero:"is not one: write onLoss: fail to have all stop with the first that fails, or leave it out for 3" needs:"onLoss=restart|alone"`
}

// Kind returns gang.
func (Gang) Kind() string { return "gang" }

// The description stands apart from the policy, whose lines e2e/bench/gang compares with the
// paper's.

// Describe says what the policy does, and its flags.
func (Gang) Describe() esl.Description {
	return esl.Description{Does: "all tasks are placed at once, or none", Flags: []esl.Flag{{
		Name: "gang", Usage: "number of tasks, all placed at once or none; each finds its rank and the addresses of all in NODE_RANK, ESCHER_PEERS, MASTER_ADDR", CountsTasks: true,
		Number: func(n int) (esl.Parameters, error) {
			switch {
			case n < 0:
				return nil, esl.Invalid("gang: %d is negative: give how many tasks are placed at once", n)
			case n == 0:
				return nil, esl.Invalid("gang: 0 tasks are none: give how many are placed at once, or leave --gang out")
			}
			return esl.Parameters{}, nil
		},
		With: []esl.Flag{{
			Name: "per-node", Usage: "with --gang: how many share each node; with --apart: how many may",
			Number: esl.Sets[int]("perNode"), Alone: "is given without --gang or --apart: say which it is of",
		}, {
			Name: "together", Text: esl.Sets[string]("in"),
		}, {
			Name: "on-loss", Usage: "when a task of a gang, or of tasks that are together, is lost: fail, restart or alone",
			Text: esl.Sets[string]("onLoss"), Values: esl.Values{Words: esl.Loss("").Choices()},
			Alone: "is given without --gang or --together: say which it is of; --restart is about one task",
		}},
	}}}
}

// NeedsNodes returns true: a gang too large for the cluster is refused.
func (Gang) NeedsNodes() bool { return true }

// Peers makes the members know each other.
func (p Gang) Peers() types.Peers { return p.Loss.Peers() }

// Validate checks the parameters.
func (p Gang) Validate() error {
	var errs []error
	errs = append(errs, esl.InvalidIf(p.PerNode < 0, "perNode: %d is negative: give how many are together on a node, or leave it out", p.PerNode))
	if p.In != "" {
		errs = append(errs, p.In.Validate("in"))
	}
	errs = append(errs, p.Loss.Check(p.Restarts)...)
	errs = append(errs, esl.InvalidIf(p.PerNode > 0 && p.In == esl.Node, "perNode: %d are to be together on a node, and all are by in: node: drop one of them", p.PerNode))
	return esl.Join(errs...)
}

// Apply reserves the requests of all members, after every policy has added its own.
func (p Gang) Apply(g *esl.Group) error {
	g.AtOnce()
	if p.In != "" {
		g.Together(p.In)
	}
	g.InUnits(p.unit(len(g.Tasks)), p.In)
	g.Lastly(func() error { return p.lock(g) })
	return p.Validate()
}

// lock creates the reservation, and makes the members draw on it.
func (p Gang) lock(g *esl.Group) error {
	if p.In != esl.Node && g.IsTogether(esl.Node) {
		p.In = esl.Node // from another policy: the mark tells Next
		g.Make(g.Own("node"), types.Inf, controlplane.OnEvery())
		g.AskAll(g.Own("node"), esl.One)
	}
	for i := range g.Tasks {
		if t := &g.Tasks[i].Task; p.Loss == esl.Restart || p.Loss == esl.Alone {
			t.Retries = max(t.Retries, cmp.Or(p.Restarts, 3))
		} else if t.Retries > 0 {
			return esl.Invalid("tasks[%d].retries: %d, and with onLoss: fail all end when one fails: leave retries out, or give onLoss: restart, or alone", i, t.Retries)
		} else if t.OnDisconnect == types.Fence {
			t.OnDisconnect = types.StopLost
		}
	}
	if p.chooses() {
		g.Make(g.Own("place"), 0, controlplane.OnEvery()) // closed until Next has chosen
		g.AskAll(g.Own("place"), esl.One)
	}
	r, err := g.Lock(g.Own(""), p.unit(len(g.Tasks)))
	if err != nil {
		return err
	}
	locked := &g.Reservations[len(g.Reservations)-1]
	locked.Lost, locked.MaxRun = p.Loss.LostBundles(), p.longest(len(g.Tasks), func(i int) time.Duration { return g.Tasks[i].Task.MaxRun })
	if err := g.CheckDomains(); err != nil {
		return err
	}
	return p.fits(g, r)
}

// unit is how many of n members share a node.
func (p Gang) unit(n int) int {
	if p.In == esl.Node {
		return n
	}
	return max(p.PerNode, 1)
}

// chooses reports whether the policy chooses a rack or zone for the gang.
func (p Gang) chooses() bool { return p.In == esl.Rack || p.In == esl.Zone }

// fits refuses a gang that the registered nodes could never hold.
func (p Gang) fits(g *esl.Group, r types.Reservation) error {
	if p.chooses() && len(g.Nodes) > 0 && !taskset.Labeled(g.Nodes, string(p.In)) {
		return types.Errorf(types.Precondition, "in: no node has a label %s: give nodes one, or leave in out", p.In)
	}
	needs := taskset.NeedsOf(nil, g.Namespace, &r)
	most, known := taskset.MostInNodes(g.Nodes, p.over(), needs)
	if !known || most == len(r.Bundles) {
		return nil
	}
	return types.Errorf(types.Precondition, "the cluster is too small for the gang: were nothing else there, %d of its %d members would fit%s%s: ask for less, or add nodes first",
		most*p.unit(len(g.Tasks)), len(g.Tasks), p.together(), taskset.ShortInNodes(g.Nodes, p.over(), needs))
}

// over is the kind of domain that is chosen; "" means the whole cluster.
func (p Gang) over() esl.Domain {
	if p.chooses() {
		return p.In
	}
	return ""
}

// together names the kind of domain that all members share.
func (p Gang) together() string {
	if p.In == "" {
		return ""
	}
	return " on one " + string(p.In)
}

// Next keeps the gang whole, chooses its domain, and removes its reservation as soon as no member
// will start there again: then each member that ends frees its part.
func (p Gang) Next(s *esl.State) esl.Plan {
	id, members, alone := s.Own(""), s.Members(), p.Loss == esl.Alone
	p, r := p.of(s, members), s.Reservation(id)
	plan := keepWhole(s, members, alone, id)
	if !plan.Nothing() {
		return plan
	}
	switch none := noneStarts(members, alone); {
	case taskset.Locked(r) && none:
		return esl.Plan{Unreserve: []string{id}, Reason: "no member will start again"}
	case taskset.Locked(r):
		chosen := p.choose(s, r, plan.RequeueAfter)
		if taskset.Granted(r) {
			return chosen
		}
		return chosen.WhenIdle("its reservation waits for capacity for all members")
	case none:
		return esl.Plan{Idle: "no member will start again"}
	}
	if all, until := gathered(members, s.Now); !all && !alone {
		return esl.Plan{RequeueAfter: until, Idle: "not all members wait yet"}
	}
	plan = taskset.LockAgain(s, members, p.unit, p.Loss.LostBundles(), "all members wait for their place again")
	for i := range plan.Reserve {
		plan.Reserve[i].MaxRun = p.longest(len(members), func(i int) time.Duration { return members[i].Info.V.MaxRun })
	}
	return plan
}

// longest returns how long the gang needs its reservation: as long as the longest of n members may run,
// unless one has no limit. It is unknown, 0, if members run again alone, as they then begin later.
func (p Gang) longest(n int, maxRun func(i int) time.Duration) (most time.Duration) {
	for i := range n {
		if most = max(most, maxRun(i)); maxRun(i) == 0 || p.Loss == esl.Alone {
			return 0
		}
	}
	return most
}

// of returns the policy as it was applied: another policy may put all members on one node.
func (p Gang) of(s *esl.State, members []*cluster.Task) Gang {
	if len(members) > 0 && taskset.AsksFor(members[0].Info.V.Requests, s.Own("node")) {
		p.In = esl.Node
	}
	return p
}

// choose chooses a rack or zone where the whole gang fits, or would fit on empty nodes. While the
// gang waits, choose moves to another one where it fits: it checks when a node changes on which a
// member fits. For a granted gang, the next check is at due.
func (p Gang) choose(s *esl.State, r *cluster.Reservation, due time.Time) esl.Plan {
	if !p.chooses() {
		return esl.Plan{RequeueAfter: due}
	}
	now, want := "", ""
	place := types.Resolve(s.Namespace, s.Own("place"))
	if c := s.View.Everywhere[place]; c != nil && c.V.Selector != nil && len(c.V.Selector.Labels) == 1 {
		now = c.V.Selector.Labels[0].Value
	}
	again := due
	if taskset.Granted(r) {
		want = p.In.Of(s.View.Nodes[r.Grant.V.Nodes[0].Node])
	} else {
		again = s.Now.Add(longestSleep)
		p.seek(s, r, now)
		if want, _, _ = p.room(s, r, now, false); want == "" {
			want, _, _ = p.room(s, r, now, true)
		}
	}
	if want == "" || want == now {
		return esl.Plan{RequeueAfter: again}
	}
	return esl.Plan{
		Set: []controlplane.Resource{{
			Name: s.Own("place"), Capacity: types.Inf, Options: esl.OfJob(s.Job),
			Where: controlplane.OnEvery(types.Label{Name: string(p.In), Value: want}),
		}},
		RequeueAfter: again, Reason: fmt.Sprintf("there is room in %s %s", p.In, want),
	}
}

// room returns a domain where all members that have not ended fit, the domain rather if possible;
// "" if none. most is how many fit where most do, all how many members have not ended.
func (p Gang) room(s *esl.State, r *cluster.Reservation, rather string, empty bool) (in string, most, all int) {
	for _, t := range s.Members() {
		if !t.Phase().Ended() {
			all++
		}
	}
	needs, out, space := taskset.NeedsOf(s.View, s.Namespace, r.Info.V), map[types.ResourceID]bool(nil), match.Present(s.View)
	if empty {
		space = match.Empty(s.View)
	}
	if p.chooses() || empty {
		out = taskset.ChosenWith(s, s.Own("place"), needs)
	}
	out = withUnseen(s, out, needs)
	if r.Current() && !empty {
		space = space.With(r.Grant.V)
	}
	in, most = taskset.DomainWithRoom(s, p.over(), needs, out, rather, space)
	return in, min(most*p.unit(all), all), all
}

// withUnseen adds what is needed of other namespaces, and not in the view, to what counts as unlimited.
func withUnseen(s *esl.State, out map[types.ResourceID]bool, needs [][]cluster.Need) map[types.ResourceID]bool {
	all := make(map[types.ResourceID]bool)
	maps.Copy(all, out)
	for id := range taskset.Sums(needs) {
		if taskset.Unseen(s, id) {
			all[id] = true
		}
	}
	return all
}
