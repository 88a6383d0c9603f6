package share

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// FairShare divides the cluster among users and teams of users, by weight: hierarchical max-min
// fairness of dominant shares (DRF), over several resources. It is shared: jobs name it by Share.
// Capacity that a user does not use is lent to others, and taken back on demand: no new task of a
// borrower is bound until it is back at its share. If Reclaim says so, tasks over the share are
// evicted after that time.
type FairShare struct {
	// Of holds the teams and users by name.
	Of map[string]Team `json:"of,omitempty" desc:"teams and users, by name" keys:"word" or:"anyone"`
	// Anyone is the weight of each user without a name here; 0 allows no others.
	Anyone float64 `json:"anyone,omitempty" desc:"weight of each user without a name in of; if it is left out, no other user may take part" min:"0" max:"1000000"`
	// Over names the shared resources; none means cpu, memory and gpu.
	Over []string `json:"over,omitempty" desc:"resources that are shared: cpu, memory and gpu if it is left out" is:"shared"`
	// Reclaim is how long a user waits for its share before tasks of users over theirs are evicted;
	// 0 means never.
	Reclaim manifest.Duration `json:"reclaim,omitempty" desc:"how long a user waits for its share before tasks of users over theirs are evicted, the youngest first, gangs as a whole; never if it is left out" zero:"is not never: give a longer time, or leave it out to evict no task"`
}

// Team is a user, or a team of users and teams.
type Team struct {
	// Weight is relative to the other members of its team; 0 means 1.
	Weight float64 `json:"weight,omitempty" desc:"how much it gets compared with the others of its team; 1 if it is left out" zero:"is not a weight: leave out a user who gets nothing, or leave weight out for 1" max:"1000000"`
	// Of and Anyone are as in FairShare; without both, it is a user.
	Of     map[string]Team `json:"of,omitempty" desc:"its teams and users, by name" keys:"word"`
	Anyone float64         `json:"anyone,omitempty" desc:"weight of each of its users who is not named" min:"0" max:"1000000"`
}

// Kind returns fair-share.
func (FairShare) Kind() string { return "fair-share" }

// Describe says what the policy does.
func (FairShare) Describe() esl.Description {
	return esl.Description{Does: "teams and users share the cluster by their weights; what one leaves, others use", OnlyDeclared: true, Flags: []esl.Flag{{
		Name: "share", Usage: "SHARES/USER, with teams SHARES/TEAM/USER: declared fair-share, and the user whose share it uses",
		Values:  esl.Values{Then: "/"},
		Pattern: "^" + manifest.NamePattern + "/(.|\n)+",
		Text: func(text string) (esl.Parameters, error) {
			name, as, _ := strings.Cut(text, "/")
			if as == "" {
				return nil, esl.Invalid("share: %q names no user: write %s/alice, or %s/TEAM/alice", text, name, name)
			}
			return esl.Parameters{"name": name, "as": as}, nil
		},
	}}}
}

// team returns the whole tree as a team.
func (p FairShare) team() Team { return Team{Of: p.Of, Anyone: p.Anyone} }

// over returns the shared resources.
func (p FairShare) over() []string {
	if len(p.Over) == 0 {
		return []string{string(types.CPU), string(types.Memory), string(types.GPU)}
	}
	return p.Over
}

// Pace bounds how often Next is called. It also bounds changes of pools, on which pending binds
// depend.
func (FairShare) Pace() time.Duration { return 100 * time.Millisecond }

// Apply refuses: jobs name it by Share.
func (p FairShare) Apply(*esl.Group) error { return esl.SharedOnly("fair-share") }

// Validate checks the parameters.
func (p FairShare) Validate() error {
	errs := []error{p.team().validate("")}
	errs = append(errs, esl.InvalidIf(len(p.Of) == 0 && p.Anyone == 0, "of: there is no team or user: name teams and users, or give the weight of anyone"))
	for i, r := range p.Over {
		id := types.ResourceID(r)
		errs = append(errs, esl.InvalidIf(!types.IsPhysical(r) || id.IsPlacement() || id == types.Port || strings.HasPrefix(r, "port/"), "over[%d]: %q cannot be shared: use cpu, memory, disk, gpu, or a resource of a domain that nodes have", i, r))
		errs = append(errs, esl.InvalidIf(slices.Contains(p.Over[:i], r), "over[%d]: %q is there twice: drop one", i, r))
	}
	errs = append(errs, esl.InvalidIf(p.Reclaim < 0, "reclaim: %s is negative: give a time, or leave it out for never", time.Duration(p.Reclaim)))
	return esl.Join(errs...)
}

func (t Team) validate(path string) error {
	var errs []error
	field := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	errs = append(errs, esl.InvalidIf(t.Weight < 0 || t.Weight > maxWeight, "%s: %g is out of range: give more than 0 and at most %g, or leave it out for 1", field("weight"), t.Weight, maxWeight))
	errs = append(errs, esl.InvalidIf(t.Anyone < 0 || t.Anyone > maxWeight, "%s: %g is out of range: give more than 0 and at most %g, or leave it out to allow no others", field("anyone"), t.Anyone, maxWeight))
	for _, name := range slices.Sorted(maps.Keys(t.Of)) {
		at := field("of." + name)
		errs = append(errs, validateUser(at, name), t.Of[name].validate(at))
	}
	return errors.Join(errs...)
}

// maxWeight is the largest weight.
const maxWeight = 1e6

// validateUser checks a name in the tree: names of resources contain it, with dots between the
// parts.
func validateUser(field, name string) error {
	if strings.Contains(name, ".") {
		return esl.Invalid("%s: %q contains a dot: use letters, digits, '-' and '_'", field, name)
	}
	return types.ValidateName(field, name)
}

// Declare returns no resources: the pools of a user exist while the user has jobs.
func (p FairShare) Declare(id string) ([]controlplane.Resource, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return nil, p.eachUser("", p.Of, func(as string) error { return p.named(id, as) })
}

func (p FairShare) eachUser(path string, of map[string]Team, f func(as string) error) error {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		t := of[name]
		if len(t.Of) == 0 && t.Anyone == 0 {
			if err := f(path + name); err != nil {
				return err
			}
		}
		if err := p.eachUser(path+name+"/", t.Of, f); err != nil {
			return err
		}
	}
	return nil
}

// named checks the names of the pools of a user.
func (p FairShare) named(id, as string) error {
	for _, r := range p.over() {
		if name := sharePool(id, as, r); len(name) > types.MaxName {
			return esl.Invalid("of: the resource %s of %q would be called %s, which has %d bytes: at most %d are allowed, shorten the names", r, as, name, len(name), types.MaxName)
		}
	}
	return nil
}

// user checks that the tree has a user with a path, such as a/alice.
func (p FairShare) user(as string) error {
	at, path := p.team(), ""
	if as == "" {
		return esl.Invalid("as: is missing: name the user of the tasks, with the teams before it, such as team/alice")
	}
	for name := range strings.SplitSeq(as, "/") {
		if err := validateUser("as", name); err != nil {
			return err
		}
		next, ok := at.Of[name]
		switch {
		case !ok && at.Anyone == 0 && len(at.Of) == 0:
			return esl.Invalid("as: %q: %s is a user, not a team: use %s", as, strings.TrimSuffix(path, "/"), strings.TrimSuffix(path, "/"))
		case !ok && at.Anyone == 0:
			return esl.Invalid("as: %q: there is no %s%s: use %s", as, path, name, strings.Join(slices.Sorted(maps.Keys(at.Of)), ", "))
		}
		at, path = next, path+name+"/"
	}
	if len(at.Of) > 0 || at.Anyone > 0 {
		return esl.Invalid("as: %q is a team: name one of its users, such as %s/%s", as, as, someName(at))
	}
	return nil
}

func someName(t Team) string {
	for _, name := range slices.Sorted(maps.Keys(t.Of)) {
		return name
	}
	return "NAME"
}

// weight returns the weight of a name in a team. A removed name has 1 until its jobs have ended.
func (t Team) weight(name string) float64 {
	w := t.Anyone
	if c, ok := t.Of[name]; ok {
		w = c.Weight
	}
	if w <= 0 {
		return 1
	}
	return w
}

// sharePool returns the name of the pool that tasks of a user draw on.
func sharePool(id, as, resource string) string {
	return esl.OwnName(id, FairShare{}.Kind(), strings.ReplaceAll(as+"."+resource, "/", "."))
}

// drawn is how much of a pool an amount of a resource draws. Pools of memory and disk count MiB,
// rounded up to a thousandth, to be readable.
func drawn(resource string, q types.Quantity) types.Quantity {
	if types.UnitOf(types.ResourceID(resource)) != types.Bytes {
		return q
	}
	const mi = 1 << 20
	return q/mi*1000 + (q%mi*1000+mi-1)/mi
}

// Use makes every task request as much from the user's pools as from its node.
func (p FairShare) Use(g *esl.Group, u esl.Use) error {
	if err := u.Only(p.Kind(), "as"); err != nil {
		return err
	}
	if err := p.user(u.As); err != nil {
		return err
	}
	if err := p.named(u.Name, u.As); err != nil {
		return err
	}
	takes := make([]bool, len(g.Tasks))
	cover := func() {
		for i := range g.Tasks {
			takes[i] = cover(u, &g.Tasks[i].Task, p.over()) || takes[i]
		}
	}
	cover()
	g.Finally(func() error {
		cover() // adds requests of other policies
		if i := slices.Index(takes, false); i >= 0 {
			return esl.Invalid("tasks[%d].requests: it asks for nothing of %s, and would take no share: ask for some, or leave the fair-share out", i, strings.Join(p.over(), ", "))
		}
		return nil
	})
	return nil
}

// cover makes a task draw on the pools of its user, and reports whether it does.
func cover(u esl.Use, t *types.Task, over []string) bool {
	var any bool
	if t.Requests, any = covered(u, t.Requests, over); len(t.Alternatives) == 0 {
		return any
	}
	t.Alternatives = slices.Clone(t.Alternatives)
	each := true
	for i := range t.Alternatives {
		var one bool
		t.Alternatives[i].Requests, one = covered(u, t.Alternatives[i].Requests, over)
		each = each && one
	}
	return any || each
}

// covered returns requests with the amounts they draw on the pools.
func covered(u esl.Use, requests types.Requests, over []string) (types.Requests, bool) {
	more := make(map[string]types.Quantity)
	any := false
	for _, r := range over {
		pool := sharePool(u.Name, u.As, r)
		want, have := drawn(r, requests.Get(r)), requests.Get(pool)
		any = any || want > 0
		if want > have {
			more[pool] = want - have
		}
	}
	return requests.Plus(types.NewRequests(more)), any
}

// Next sets the pools of users to their current entitlement, and removes the pools of users without
// jobs. It reserves capacity where a share is free only in fragments, and evicts tasks that are
// over a share for too long.
func (p FairShare) Next(s *esl.State) esl.Plan {
	c := p.census(s)
	c.tree.shareOut(c.capacity)
	targets := c.targets()
	if plan := p.makeRoom(c); len(plan.Reserve)+len(plan.Unreserve) > 0 {
		return plan
	}
	plan := esl.Plan{Set: c.sets(targets)}
	if len(plan.Set) < s.MaxChanges() {
		plan.Set = append(plan.Set, p.unused(c)...)
	}
	plan.Set = plan.Set[:min(len(plan.Set), s.MaxChanges())]
	if len(plan.Set) > 0 {
		plan.Reason = "set the shares of " + words.Count(len(c.users), "user")
		return plan
	}
	if plan := p.reclaim(c, targets); !plan.Nothing() {
		return plan
	}
	plan.Idle = "the shares are set, and nothing is reclaimed"
	if slices.ContainsFunc(c.users, func(u *user) bool { return u.unit != nil }) {
		plan.RequeueAfter = s.Now.Add(time.Second) // for turns, reclaim, and tasks outside the policy
	}
	return plan
}

// WhyUsed says how much of its share the user of a task has, if the task waits for that.
func (p FairShare) WhyUsed(s *esl.State, use esl.Use, task string) why.Reason {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	if t == nil || t.Info.V == nil || t.Phase() != types.Pending {
		return why.Reason{}
	}
	c := p.census(s)
	u := c.byPath[use.As]
	if u == nil {
		return why.Reason{}
	}
	if text := c.pauses(u); text != "" {
		return why.Say(why.Order, "%s begins nothing for now: %s", use.As, text)
	}
	asks := make([]float64, len(u.pools))
	for r, pool := range u.pools {
		asks[r] = float64(t.Info.V.Requests.Get(pool))
		if len(t.Info.V.Alternatives) > 0 {
			asks[r] += float64(t.Info.V.Alternatives[0].Requests.Get(pool))
		}
	}
	// The pools of a gang's member are requested by its reservation.
	reserved := !slices.ContainsFunc(asks, func(q float64) bool { return q > 0 })
	var all, short []string
	for r, resource := range c.over {
		if asks[r] == 0 && (!reserved || u.waits[r] == 0) {
			continue
		}
		has := max(0, float64(u.cap[r]))
		text := fmt.Sprintf("%s of its share of %s %s", amountText(u.held[r]), amountText(has), unitText(resource))
		if all = append(all, text); u.held[r]+asks[r] > has {
			short = append(short, text)
		}
	}
	after := ""
	if len(short) == 0 {
		if room := c.room(u, t); room != "" {
			return why.Say(why.InUse, "%s has its share, and no node has room for it: %s", use.As, room)
		}
		if !c.anyOver() {
			return why.Reason{}
		}
		short, after = all, "; others have more than their share until tasks of them end"
		if p.Reclaim > 0 {
			after += " or are evicted"
		}
	}
	has := strings.Join(short, ", and ")
	switch n := before(s, use.As, t, reserved); n {
	case 0:
		return why.Say(why.Budget, "%s uses %s%s", use.As, has, after)
	case 1:
		return why.Say(why.Budget, "%s uses %s; 1 task is before it%s", use.As, has, after)
	default:
		return why.Say(why.Budget, "%s uses %s; %d tasks are before it%s", use.As, has, n, after)
	}
}
