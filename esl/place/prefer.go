package place

import (
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Prefer gives each task the first of several places that it can have: soft constraints, and OR. A
// later place is open at once, or only after the task has waited for a time. The last one may be
// empty: anywhere.
type Prefer struct {
	// Of holds the places, the best first.
	Of []Choice `json:"of" desc:"the places, the best first" some:""`
	// Anywhere, unless 0, is after how long a task takes any other place, too.
	Anywhere manifest.Wait `json:"anywhere,omitempty" desc:"after how long a task takes any place; never if it is left out, at once if it is 0s"`
}

// Choice is one place: all of its fields must hold.
type Choice struct {
	// Node, Rack and Zone name the place.
	Node string `json:"node,omitempty" desc:"on this node" is:"name" or:"rack zone labels requests"`
	Rack string `json:"rack,omitempty" desc:"in this rack" is:"name"`
	Zone string `json:"zone,omitempty" desc:"in this zone" is:"name"`
	// Labels are those of the node.
	Labels map[string]string `json:"labels,omitempty" desc:"on nodes with these labels" is:"text" keys:"name"`
	// Requests are further requests, such as gpu, or a resource of the job.
	Requests map[string]manifest.Amount `json:"requests,omitempty" desc:"what is requested besides"`
	// After is how long after its submission a task may take the place.
	After manifest.Duration `json:"after,omitempty" desc:"how long after its submission a task may take it; at once if it is left out"`
}

// Kind returns prefer.
func (Prefer) Kind() string { return "prefer" }

// Describe says what the policy does, and its flags.
func (Prefer) Describe() esl.Description {
	return esl.Description{Does: "tasks go to places in order of preference, each after a while", OneByOne: true, Flags: []esl.Flag{{
		Name: "prefer", Texts: preferred, Values: esl.Values{Words: []string{"node/", "rack/", "zone/", "label/", "anywhere"}},
		Usage: "node/N, rack/R, zone/Z, label/NAME=VALUE or RESOURCE=AMOUNT[,…][,after=3s]: a place; repeat for several, the best first; anywhere[,after=3s] may come last",
	}}}
}

// Validate checks the parameters.
func (p Prefer) Validate() error {
	var errs []error
	errs = append(errs, esl.InvalidIf(len(p.Of) == 0, "of: is empty: give at least one place"))
	if n := len(p.Of) + taskset.BoolInt(p.Anywhere != 0); n > types.MaxAlternatives {
		errs = append(errs, esl.Invalid("of: has %d places, with anywhere: at most %d are allowed, drop some", n, types.MaxAlternatives))
	}
	var last manifest.Duration
	for i, c := range p.Of {
		at := fmt.Sprintf("of[%d]", i)
		if _, err := c.requests(""); err != nil {
			errs = append(errs, esl.Invalid("%s.%w", at, err))
		}
		for _, l := range c.labels() {
			if errs = append(errs, types.ValidateName(at+".labels", l.Name)); l.Value == "" {
				errs = append(errs, esl.Invalid("%s.labels.%s: is empty: give the value that it must have", at, l.Name))
			}
		}
		switch {
		case c.String() == anyPlace:
			errs = append(errs, esl.Invalid("%s: says no place: give a node, rack, zone, labels or requests; for any place set anywhere", at))
		case c.After < 0:
			errs = append(errs, esl.Invalid("%s.after: %s is negative: use 0 or more", at, time.Duration(c.After)))
		case c.After < last:
			errs = append(errs, esl.Invalid("%s.after: %s is less than that of the place before, %s, which is better: give it no less", at, time.Duration(c.After), time.Duration(last)))
		}
		last = max(last, c.After)
	}
	errs = append(errs, esl.InvalidIf(p.Anywhere > 0 && time.Duration(p.Anywhere) < time.Duration(last), "anywhere: %s is less than after of the last place, %s: give it no less", time.Duration(p.Anywhere), time.Duration(last)))
	return esl.Join(errs...)
}

// Apply adds the places to each task as alternatives, combined with those it has.
func (p Prefer) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	var places []types.Alternative
	for i, c := range p.Of {
		label := ""
		if len(c.Labels) > 0 {
			label = g.Own(fmt.Sprint(i))
			set := controlplane.Resource{Name: label, Capacity: types.Inf, Where: controlplane.OnEvery(c.labels()...), Options: esl.OfJob(g.ID)}
			set.Options.Future = true
			g.Resources = append(g.Resources, set)
		}
		requests, err := c.requests(label)
		if err != nil {
			return err
		}
		places = append(places, types.Alternative{Requests: requests, After: time.Duration(c.After)})
	}
	if p.Anywhere != 0 {
		places = append(places, types.Alternative{After: max(0, time.Duration(p.Anywhere))})
	}
	for i := range g.Tasks {
		if err := g.OneOf("of", i, places...); err != nil {
			return err
		}
	}
	return nil
}

// requests returns the requests of a place; label is the resource of its labels.
func (c Choice) requests(label string) (types.Requests, error) {
	texts := make(map[string]string)
	for name, amount := range c.Requests {
		texts[name] = string(amount)
	}
	for kind, value := range map[string]string{"node": c.Node, "rack": c.Rack, "zone": c.Zone} {
		if value != "" {
			texts[kind+"/"+value] = "1"
		}
	}
	if label != "" {
		texts[label] = "1"
	}
	r, err := types.MakeRequests(texts)
	if err != nil {
		return nil, esl.Invalid("requests.%w", err)
	}
	return r, r.Validate("requests")
}

func (c Choice) labels() []types.Label {
	var out []types.Label
	for _, name := range taskset.SortedKeys(c.Labels) {
		out = append(out, types.Label{Name: name, Value: c.Labels[name]})
	}
	return out
}

// Why says which place is open to the task, and which is next.
func (p Prefer) Why(s *esl.State, task string) why.Reason {
	t, ok := taskset.Waits(s, task)
	if !ok {
		return why.Reason{}
	}
	waited := s.Now.Sub(time.Unix(0, t.Info.V.Submitted))
	var open []string
	for i, c := range p.Of {
		if at := time.Duration(c.After); at > waited {
			return why.Say(why.Place, "prefer: it takes %s; place %d of %d in %s", either(open), i+1, len(p.Of), (at - waited).Round(time.Second))
		}
		open = append(open, c.String())
	}
	if at := time.Duration(p.Anywhere); at > waited {
		return why.Say(why.Place, "prefer: it takes %s; any other place in %s", either(open), (at - waited).Round(time.Second))
	}
	if p.Anywhere != 0 {
		return why.Reason{}
	}
	return why.Say(why.Place, "prefer: it takes %s, and nothing else", either(open))
}

func either(places []string) string {
	if len(places) == 0 {
		return "nothing yet"
	}
	return strings.Join(places, ", or ")
}

// anyPlace describes an empty choice.
const anyPlace = "any place"

// String describes the place in words.
func (c Choice) String() string {
	var parts []string
	for _, x := range [][2]string{{"node", c.Node}, {"rack", c.Rack}, {"zone", c.Zone}} {
		if x[1] != "" {
			parts = append(parts, x[0]+" "+x[1])
		}
	}
	for _, name := range taskset.SortedKeys(c.Labels) {
		parts = append(parts, name+"="+c.Labels[name])
	}
	for _, name := range taskset.SortedKeys(c.Requests) {
		parts = append(parts, string(c.Requests[name])+" "+name)
	}
	if len(parts) == 0 {
		return anyPlace
	}
	return strings.Join(parts, " with ")
}

// preferred returns the parameters of places written as --prefer has them, the best first.
func preferred(places []string) (esl.Parameters, error) {
	with := esl.Parameters{}
	var of []any
	for i, place := range places {
		choice := esl.Parameters{}
		for part := range strings.SplitSeq(place, ",") {
			if err := addPart(choice, part, place); err != nil {
				return nil, err
			}
		}
		after := choice["after"]
		if choice["anywhere"] == nil {
			of = append(of, choice)
			continue
		}
		delete(choice, "after")
		switch {
		case len(choice) > 1:
			return nil, esl.Invalid("prefer: %q: anywhere is any place, and the rest says which: give anywhere by a --prefer of its own, the last", place)
		case i < len(places)-1:
			return nil, esl.Invalid("prefer: anywhere is any place, and %q follows: give it last", places[i+1])
		case i == 0:
			return nil, esl.Invalid("prefer: anywhere prefers no place: give one before it, such as --prefer rack/r1, or leave --prefer out")
		case after != nil:
			with["anywhere"] = after
		default:
			with["anywhere"] = "0s"
		}
	}
	with["of"] = of
	return with, nil
}

// addPart adds a part of a place to the parameters of a choice.
func addPart(choice esl.Parameters, part, place string) error {
	kind, value, _ := strings.Cut(part, "/")
	key, amount, assigned := strings.Cut(part, "=")
	field, in := kind, choice
	switch {
	case part == "anywhere":
		value = part
	case key == "after" && assigned:
		field, value = key, amount
	case (kind == "node" || kind == "rack" || kind == "zone") && value != "":
	case kind == "label" && assigned:
		field, value, in = strings.TrimPrefix(key, "label/"), amount, below(choice, "labels")
	case assigned && key != "":
		field, value, in = key, amount, below(choice, "requests")
	default:
		return esl.Invalid("prefer: %q is no place: write node/N, rack/R, zone/Z, label/NAME=VALUE, RESOURCE=AMOUNT or anywhere, and ,after=3s", part)
	}
	if in[field] != nil {
		return esl.Invalid("prefer: %q: %s is there twice: drop one, or repeat --prefer for another place", place, field)
	}
	in[field] = value
	return nil
}

// below returns the parameters in a field, which it creates.
func below(with esl.Parameters, field string) esl.Parameters {
	if with[field] == nil {
		with[field] = esl.Parameters{}
	}
	return with[field].(esl.Parameters)
}
