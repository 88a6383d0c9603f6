package place

import (
	"cmp"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Interleave lets jobs share GPUs by phase (Zhao et al., "Multi-resource interleaving for deep learning
// training", SIGCOMM 2022): each iteration loads data, computes and communicates, and while one task
// computes, its partner does something else. Tasks ask for a part of a GPU and declare how long their
// phases are. The policy puts those together that complement each other, and creates a rotation on the
// device that several share: one unit for each phase, which a task holds while it is in that phase.
//
// It is shared: jobs take part by Use.
type Interleave struct {
	// Phases are the phases of an iteration, in order; none means data, compute and communicate.
	Phases []string `json:"phases,omitempty" desc:"the phases of an iteration, in order; data, compute and communicate if they are left out" zero:"are none: give two to four, or leave them out" is:"name"`
	// Gain is how much a partner must add to the work of a device; 0 means 0.3.
	Gain float64 `json:"gain,omitempty" desc:"how much a task must add to the work that a device does, as a part of its work with one task; 0.3 if it is left out" zero:"would put any two tasks together: give how much, or leave it out for 0.3" min:"0" max:"4"`
}

// Kind returns interleave.
func (Interleave) Kind() string { return "interleave" }

// Describe says what the policy does, and its flag.
func (Interleave) Describe() esl.Description {
	return esl.Description{Does: "jobs share GPUs, each in another phase of its iterations", OnlyDeclared: true, Flags: []esl.Flag{{
		Name: "interleave", Usage: "NAME=PHASES: declared interleave, and the phases of an iteration: gpus=data=300ms,compute=400ms",
		Values: esl.Values{Then: "="}, Pattern: "^" + manifest.NamePattern + "=.+$",
		Text: func(text string) (esl.Parameters, error) {
			name, as, ok := strings.Cut(text, "=")
			if !ok {
				return nil, esl.Invalid("interleave: %q has no phases: write NAME=data=300ms,compute=400ms", text)
			}
			return esl.Parameters{"name": name, "as": as}, nil
		},
	}}}
}

// Apply refuses: jobs take part by Use.
func (Interleave) Apply(*esl.Group) error { return esl.SharedOnly("interleave") }

func (p Interleave) phases() []string {
	if len(p.Phases) == 0 {
		return []string{"data", "compute", "communicate"}
	}
	return p.Phases
}

func (p Interleave) gain() float64 { return cmp.Or(p.Gain, 0.3) }

// Validate checks the parameters.
func (p Interleave) Validate() error {
	var errs []error
	if n := len(p.phases()); n < 2 || n > maxPhases {
		errs = append(errs, esl.Invalid("phases: has %d: give two to %d, or leave them out", n, maxPhases))
	}
	for i, name := range p.Phases {
		switch err := types.ValidateName("phases", name); {
		case err != nil:
			errs = append(errs, err)
		case len(name) > maxPhaseName:
			errs = append(errs, esl.Invalid("phases: %q has %d bytes: at most %d are allowed, shorten it", name, len(name), maxPhaseName))
		case slices.Contains(p.Phases[:i], name):
			errs = append(errs, esl.Invalid("phases: %q is there twice: name each phase once", name))
		}
	}
	errs = append(errs, esl.InvalidIf(p.Gain < 0 || p.Gain > maxPhases, "gain: %g is not within 0 and %d: give how much a partner must add, or leave it out for 0.3", p.Gain, maxPhases))
	return esl.Join(errs...)
}

// Declare checks the parameters, and the name. Rotations exist on the devices that tasks share.
func (p Interleave) Declare(id string) ([]controlplane.Resource, error) {
	longest := esl.OwnName(id, p.Kind(), rotation+strings.Repeat("x", shortDevice+1+maxPhaseName))
	return nil, esl.Join(esl.CheckMade("name", id, longest), p.Validate())
}

// Use makes each task request a resource of its own, which assigns it to a node.
func (p Interleave) Use(g *esl.Group, u esl.Use) error {
	if err := u.Only(p.Kind(), "as"); err != nil {
		return err
	}
	if _, err := parseLengths(u.As, p.phases()); err != nil {
		return err
	}
	for i := range g.Tasks {
		if gpu := g.Tasks[i].Task.Requests.Get(string(types.GPU)); gpu <= 0 || gpu > match.Whole/2 {
			return esl.Invalid("tasks[%d].requests.gpu: is %s, which leaves no part for a partner: request up to 0.5", i, gpu.Format(types.GPU))
		}
	}
	g.InTurn()
	AssignEach(g)
	return nil
}

// Next assigns waiting tasks to nodes, and creates the rotations of shared devices.
func (p Interleave) Next(s *esl.State) esl.Plan {
	of := make(map[string]lengths)
	for job, use := range s.Referring() {
		if u, ok := use.(esl.Use); ok {
			of[job], _ = parseLengths(u.As, p.phases()) // of former phases: it shares with none
		}
	}
	return sharingOf(s, p.phases(), p.gain(), of).next()
}

// ClusterScoped is set: devices become free with other jobs.
func (Interleave) ClusterScoped() {}

// Why says which node was chosen, or that no device is free and no partner fits.
func (p Interleave) Why(s *esl.State, task string) why.Reason {
	reason := Assign{}.Why(s, task)
	if reason.Cause == why.InUse || reason.Cause == why.Order {
		return why.Say(why.Order, "interleave: no GPU is free for it, or has a task to which it adds %g of the work of one; it takes the first", p.gain())
	}
	return reason
}
