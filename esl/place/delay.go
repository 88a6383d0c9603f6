package place

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Delay scheduling (Zaharia et al., EuroSys 2010): a task waits for a place that suits it before it takes a
// worse one. Each step is a larger domain, which is open after a time.

// Step is a domain to which a task goes after a while.
type Step struct {
	// In is the domain: the rack or zone of a node with the data.
	In esl.Domain `json:"in" desc:"the rack or zone of a node with the data"`
	// After is how long after its submission a task goes there.
	After manifest.Duration `json:"after,omitempty" desc:"how long after its submission a task goes there; at once if it is left out, but nearer nodes first"`
}

// anywhere is the last step of a task that waits: it needs no data.
const anywhere esl.Domain = "anywhere"

// stepsFrom returns all steps of a task: the first one, which is open at once, others, and anywhere after a
// wait unless that is 0.
func stepsFrom(first esl.Domain, then []Step, wait manifest.Wait) []Step {
	all := append([]Step{{In: first}}, then...)
	if wait != 0 {
		all = append(all, Step{In: anywhere, After: manifest.Duration(max(0, wait))})
	}
	return all
}

// areasOf returns the steps whose domains are racks or zones.
func areasOf(steps []Step) []Step {
	return slices.DeleteFunc(slices.Clone(steps), func(x Step) bool { return !x.isArea() })
}

// askInSteps makes the i-th task request what resource returns for each step; "" means nothing.
func askInSteps(g *esl.Group, i int, steps []Step, resource func(Step) string) error {
	if len(steps) == 1 {
		g.Ask(i, resource(steps[0]), 1)
		return nil
	}
	var ways []types.Alternative
	for _, step := range steps {
		ways = append(ways, step.alternative(resource(step)))
	}
	return g.OneOf("wait", i, ways...)
}

// isArea reports whether the domain of a step is a rack or zone.
func (x Step) isArea() bool { return x.In == esl.Rack || x.In == esl.Zone }

// alternative returns what a task requests at a step: some of a resource, or nothing.
func (x Step) alternative(resource string) types.Alternative {
	way := types.Alternative{After: time.Duration(x.After)}
	if resource != "" {
		way.Requests = types.Requests{{Name: resource, Amount: 1}}
	}
	return way
}

// validSteps checks that each step is larger and later than the one before it.
func validSteps(all []Step) (errs []error) {
	size := map[esl.Domain]int{esl.Node: 0, esl.Rack: 1, esl.Zone: 2, anywhere: 3}
	for i, step := range all[1:] {
		at, before := "steps["+strconv.Itoa(i)+"]", all[i]
		after := "after of " + string(before.In)
		switch {
		case step.In == anywhere:
			at = "wait"
		case step.In != esl.Rack && step.In != esl.Zone:
			errs = append(errs, esl.Invalid("%s.in: %q is no step: give rack or zone, and wait for anywhere", at, string(step.In)))
			continue
		case size[step.In] <= size[before.In]:
			errs = append(errs, esl.Invalid("%s.in: %s is not larger than %s, which comes before it: order them, the smallest first, or drop one", at, step.In, before.In))
		case step.After < 0:
			errs = append(errs, esl.Invalid("%s.after: %s is negative: give 0s or more", at, time.Duration(step.After)))
		default:
			at += ".after"
		}
		if late, early := time.Duration(step.After), time.Duration(before.After); late < early {
			errs = append(errs, esl.Invalid("%s: %s is less than %s, %s: give it no less", at, late, after, early))
		}
	}
	return errs
}

// nearSteps reads the values of --near-step.
func nearSteps(texts []string) (esl.Parameters, error) {
	var steps []any
	for _, text := range texts {
		in, after, ok := strings.Cut(text, ",after=")
		d, err := time.ParseDuration(after)
		if !ok || err != nil {
			return nil, esl.Invalid("near-step: %q: write rack,after=10s, or zone,after=1m", text)
		}
		steps = append(steps, esl.Parameters{"in": in, "after": d})
	}
	return esl.Parameters{"steps": steps}, nil
}

// whereTo says where a task may go that has waited for a time, and where next.
func whereTo(steps []Step, place string, waited time.Duration) string {
	into := map[esl.Domain]string{esl.Rack: "into its rack", esl.Zone: "into its zone", anywhere: "anywhere"}
	now, next := "", ""
	for _, step := range steps[1:] {
		if left := time.Duration(step.After) - waited; left > 0 {
			next = fmt.Sprintf("%s in %s", into[step.In], left.Round(time.Second))
			break
		}
		now = into[step.In]
	}
	switch {
	case now == "" && next == "":
		return fmt.Sprintf("it is to be %s: it waits for room there", place)
	case now == "":
		return fmt.Sprintf("it is to be %s: it goes %s", place, next)
	case next == "":
		return fmt.Sprintf("it was to be %s, and goes %s by now", place, now)
	}
	return fmt.Sprintf("it was to be %s, and goes %s by now, %s", place, now, next)
}
