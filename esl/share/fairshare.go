package share

import (
	"cmp"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
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

// Kind returns fair-share.
func (FairShare) Kind() string { return kind }

// Describe says what the policy does.
func (FairShare) Describe() esl.Description {
	return esl.Description{Does: "teams and users share the cluster by their weights; what one leaves, others use", OnlyDeclared: true, Flags: []esl.Flag{{
		Name: "share", Usage: "SHARES/USER, with teams SHARES/TEAM/USER: declared fair-share, of another namespace as NAMESPACE:SHARES, and the user whose share it uses; a server knows the user, which may be left out",
		Values:  esl.Values{Then: "/"},
		Pattern: "^(" + manifest.NamePattern + ":)?" + manifest.NamePattern + "(/(.|\n)+)?$",
		Text:    useText,
	}}}
}

// over returns the shared resources.
func (p FairShare) over() []string { return resourcesOf(p.Over) }

// team returns the whole tree as a team.
func (p FairShare) team() Team { return Team{Of: p.Of, Anyone: p.Anyone} }

// Pace bounds how often Next is called. It also bounds changes of pools, on which pending binds
// depend.
func (FairShare) Pace() time.Duration { return 100 * time.Millisecond }

// Apply refuses: jobs take part by Use.
func (FairShare) Apply(*esl.Group) error { return esl.SharedOnly(kind) }

// Validate checks the parameters.
func (p FairShare) Validate() error {
	errs := []error{
		p.team().validate(""),
		esl.InvalidIf(len(p.Of) == 0 && p.Anyone == 0, "of: there is no team or user: name teams and users, or give the weight of anyone"),
		esl.InvalidIf(p.Reclaim < 0, "reclaim: %s is negative: give a time, or leave it out for never", time.Duration(p.Reclaim)),
	}
	for i := range p.Over {
		errs = append(errs, validShared(p.Over, i))
	}
	return esl.Join(errs...)
}

// AcrossNamespaces says that jobs of other namespaces may take part: each namespace is a team.
func (FairShare) AcrossNamespaces() {}

// Declare returns no resources: the pools of a user exist while the user has jobs.
func (p FairShare) Declare(id string) ([]controlplane.Resource, error) {
	return nil, cmp.Or(p.Validate(), p.team().eachUser("", func(as string) error { return checkPools(id, as, p.over()) }))
}

// AsUser returns the path of a user of a team.
func (p FairShare) AsUser(u esl.Use, ns, user string) string { return p.team().withUser(u, ns, user) }

// Use makes every task request as much from the user's pools as from its node.
func (p FairShare) Use(g *esl.Group, u esl.Use) error {
	if err := cmp.Or(u.Only(p.Kind(), "as"), ofTeam(u, g.Namespace), p.team().userOf(u, g.Namespace), checkPools(u.Name, u.As, p.over())); err != nil {
		return err
	}
	coverAll(g, u, p.over())
	return nil
}

func (p FairShare) census(s *esl.State) *census {
	return censusOf(s, p.over(), p.team(), time.Duration(p.Reclaim))
}

// Next sets the pools of users to their current entitlement, and removes the pools of users without
// jobs. It reserves capacity where a share is free only in fragments, and evicts tasks that are
// over a share for too long.
func (p FairShare) Next(s *esl.State) esl.Plan {
	c := p.census(s)
	c.tree.shareOut(c.capacity)
	targets := c.targets()
	if plan := c.makeRoom(); !plan.Nothing() {
		return plan
	}
	if plan := c.setPools(targets); !plan.Nothing() {
		return plan
	}
	plan := c.reclaim(targets)
	if plan.Nothing() && slices.ContainsFunc(c.users, func(u *user) bool { return u.unit != nil }) {
		plan.RequeueAfter = s.Now.Add(time.Second) // for turns, reclaim, and tasks outside the policy
	}
	return plan.WhenIdle("the shares are set, and nothing is reclaimed")
}

// WhyUsed says how much of its share the user of a task has, if the task waits for that.
func (p FairShare) WhyUsed(s *esl.State, use esl.Use, task string) why.Reason {
	t, waits := taskset.Waits(s, task)
	c := p.census(s)
	u := c.byPath[use.As]
	if !waits || u == nil {
		return why.Reason{}
	}
	if text := c.pauses(u); text != "" {
		return why.Say(why.Order, "%s begins nothing for now: %s", use.As, text)
	}
	has, short := c.has(u, t)
	after := ""
	switch room := c.room(u, t); {
	case short:
	case room != "":
		return why.Say(why.InUse, "%s has its share, and no node has room for it: %s", use.As, room)
	case !c.anyOver():
		return why.Reason{}
	case p.Reclaim > 0:
		after = "; others have more than their share until tasks of them end or are evicted"
	default:
		after = "; others have more than their share until tasks of them end"
	}
	return why.Say(why.Budget, "%s uses %s%s%s", use.As, has, beforeText(s, use.As, t, u.isReserved(t)), after)
}
