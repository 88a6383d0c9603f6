package place

import (
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
)

// anywhere is the last step of a task that waits: it needs no data.
const anywhere esl.Domain = "anywhere"

// steps returns all steps of a task, the first of which is open at once.
func (p Near) steps() []Step {
	all := append([]Step{{In: p.In.Or(esl.Node)}}, p.Steps...)
	if p.Wait != 0 {
		all = append(all, Step{In: anywhere, After: manifest.Duration(max(0, p.Wait))})
	}
	return all
}

// resource returns what the i-th task requests at a step, and whether it is a resource of the policy; ""
// means nothing.
func (p Near) resource(own func(suffix string) string, step Step, i int) (name string, mine bool) {
	number := strconv.Itoa(i * taskset.BoolInt(p.Each))
	switch {
	case step.In == anywhere:
		return "", false
	case step.In == esl.Node:
		return p.data(i), false
	case step.In == p.In:
		return own(number), true
	}
	return own(string(step.In) + "." + number), true
}

// validSteps checks that each step is larger and later than the one before it.
func (p Near) validSteps() (errs []error) {
	size := map[esl.Domain]int{esl.Node: 0, esl.Rack: 1, esl.Zone: 2, anywhere: 3}
	all := p.steps()
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

// whyWaits says where a task may go that has waited for a time, and where next.
func (p Near) whyWaits(data, where string, waited time.Duration) why.Reason {
	into := map[esl.Domain]string{esl.Rack: "into its rack", esl.Zone: "into its zone", anywhere: "anywhere"}
	now, next, in := "", "", time.Duration(0)
	for _, step := range p.steps()[1:] {
		if left := time.Duration(step.After) - waited; left > 0 {
			next, in = into[step.In], left.Round(time.Second)
			break
		}
		now = into[step.In]
	}
	switch {
	case now == "" && next == "":
		return why.Say(why.Place, "near: it is to be near %s, %s: it waits for room there", data, where)
	case now == "":
		return why.Say(why.Place, "near: it is to be near %s, %s: it goes %s in %s", data, where, next, in)
	case next == "":
		return why.Say(why.Place, "near: it was to be near %s, %s, and goes %s by now", data, where, now)
	}
	return why.Say(why.Place, "near: it was to be near %s, %s, and goes %s by now, %s in %s", data, where, now, next, in)
}
