package quiet

import (
	"cmp"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
)

// Quiet keeps apart the kinds of jobs that slow one another down (Paragon: Delimitrou and Kozyrakis, ASPLOS
// 2013). It is shared: the tasks of jobs with a Use begin on nodes where they neither lose much nor make
// others of these jobs lose much. A kind is a history: the label history, or the name of the job.
type Quiet struct {
	// Slowdown is the most percent of its time that a task may lose to another kind; 0 means 10.
	Slowdown int `json:"slowdown,omitempty" desc:"the most percent of its time that a task may lose to another kind of job; 10 if it is left out" zero:"would keep every kind apart from all others: give 1 to 90, or leave it out for 10" max:"90"`
	// Wait is how long a task waits for a quiet node before it takes any; 0 means one minute.
	Wait manifest.Wait `json:"wait,omitempty" desc:"how long a task waits for a quiet node before it takes the least bad one; 1m if it is left out, no time if it is 0s"`
}

// kind is the name of the policy, and tolerant the As of jobs that may be slowed.
const (
	kind     = "quiet"
	tolerant = "tolerant"
)

// Kind returns quiet.
func (Quiet) Kind() string { return kind }

// Describe says what the policy does, and its flag.
func (Quiet) Describe() esl.Description {
	return esl.Description{Does: "learns which kinds of jobs slow one another down, and keeps them on different nodes", OnlyDeclared: true, Flags: []esl.Flag{{
		Name: "quiet", Usage: "NAME: declared quiet policy; keep away from jobs that slow this one. NAME=tolerant: only keep from slowing others",
		Values: esl.Values{Then: ""}, Pattern: "^" + manifest.NamePattern + "(=" + tolerant + ")?$",
		Text: func(text string) (esl.Parameters, error) {
			name, as, given := strings.Cut(text, "=")
			if !given {
				return esl.Parameters{"name": name}, nil
			}
			return esl.Parameters{"name": name, "as": as}, checkAs("quiet", as)
		},
	}}}
}

// checkAs refuses other words than tolerant.
func checkAs(field, as string) error {
	return esl.InvalidIf(as != "" && as != tolerant, "%s: %q is unknown: write %s for a job that may be slowed, or leave it out", field, as, tolerant)
}

// Apply refuses: jobs take part by Use.
func (Quiet) Apply(*esl.Group) error { return esl.SharedOnly(kind) }

// Validate checks the parameters.
func (p Quiet) Validate() error {
	return esl.InvalidIf(p.Slowdown < 0 || p.Slowdown > 90, "slowdown: %d is not within 1 and 90 percent: change it, or leave it out for 10", p.Slowdown)
}

// Declare creates nothing, and checks that the names of what is learned will not be too long.
func (p Quiet) Declare(id string) ([]controlplane.Resource, error) {
	longest := esl.OwnName(id, kind, pairName(strings.Repeat("x", maxSlug), strings.Repeat("x", maxSlug)))
	return nil, esl.Join(esl.CheckMade("name", id, longest), p.Validate())
}

// Use has each task request the resource of its kind.
func (p Quiet) Use(g *esl.Group, u esl.Use) error {
	if err := cmp.Or(u.Only(p.Kind(), "as"), checkAs("as", u.As)); err != nil {
		return err
	}
	g.Steers()
	for i := range g.Tasks {
		g.Ask(i, esl.OwnName(u.Name, kind, slug(g.HistoryName(i))), esl.One)
	}
	return nil
}

// Pace bounds how often all nodes are compared with what is known.
func (Quiet) Pace() time.Duration { return 100 * time.Millisecond }

// ClusterScoped is set: the tasks of all jobs are neighbors.
func (Quiet) ClusterScoped() {}

// OpensFor allows capacity to be made on any node.
func (Quiet) OpensFor(s *esl.State, _ esl.Use) esl.Limit {
	return esl.Limit{Name: s.Own(""), Each: true}
}

// Measures asks the nodes on which something can be learned.
func (p Quiet) Measures(s *esl.State) map[string]time.Duration { return p.survey(s).ask() }

// Next learns from what nodes have measured, and says where tasks of each kind may begin.
func (p Quiet) Next(s *esl.State) esl.Plan {
	w := p.survey(s)
	if plan := w.learn(); !plan.Nothing() {
		return plan
	}
	return w.admit()
}

// WhyUsed says what a task waits for that may not begin on any node.
func (p Quiet) WhyUsed(s *esl.State, _ esl.Use, task string) why.Reason {
	t, waits := taskset.Waits(s, task)
	if !waits {
		return why.Reason{}
	}
	w := p.survey(s)
	k := w.kindOf(t)
	switch x := w.outlook(k); {
	case x.opens != "":
		return why.Say(why.Place, "quiet: node %s is about to be opened for it", x.opens)
	case x.trying != "":
		return why.Say(why.Place, "quiet: it is not known yet how kind %s goes with those on %s; that is being tried; %s", k, x.trying, w.takesAny(k))
	case len(x.loud) > 0:
		return why.Say(why.Place, "quiet: no node with room is quiet for kind %s; what tasks lose there: %s; %s", k, strings.Join(x.loud[:min(len(x.loud), 4)], ", "), w.takesAny(k))
	}
	return why.Reason{} // one is open, or none has room
}

func (p Quiet) survey(s *esl.State) *world {
	return surveyOf(s, float64(cmp.Or(p.Slowdown, 10))/100, p.Wait.Or(time.Minute))
}
