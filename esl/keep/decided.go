package keep

import (
	"cmp"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// woken is what calls a policy next, for the log of decisions: the first of some changes and their
// number, or a time.
type woken struct {
	first   controlplane.Key
	changes int
	time    bool
}

// by counts a change; the zero key is none.
func (w *woken) by(at controlplane.Key) {
	if at.Kind == "" {
		return
	}
	if w.changes == 0 {
		w.first = at
	}
	w.changes++
}

// String describes it; "" for nothing that is known.
func (w *woken) String() string {
	switch {
	case w.changes > 1:
		return changeText(w.first) + " and " + words.Count(w.changes-1, "more change")
	case w.changes == 1:
		return changeText(w.first)
	case w.time:
		return "the time that it named"
	}
	return ""
}

// wokenText describes what calls the policy now.
func (p *managedPolicy) wokenText() string {
	if p.failures > 0 && p.woken.changes == 0 {
		return "another try"
	}
	return p.woken.String()
}

// measurement is the kind of a change that is no key: an answer of a node.
const measurement controlplane.Kind = "usage"

// changeText names the object of a changed key.
func changeText(at controlplane.Key) string {
	name := cmp.Or(at.ID, at.Name, at.Node)
	switch at.Kind {
	case controlplane.Statuses:
		return "status of task " + name
	case controlplane.Bindings, controlplane.Reports:
		return "attempt of task " + at.ID + " on " + at.Node
	case controlplane.Alive:
		return "session of node " + name
	case controlplane.Policies:
		return "policies of " + name
	case controlplane.Allocated:
		return "what is allocated of " + cmp.Or(at.Name, at.Node)
	case controlplane.Devices, measurement:
		return string(at.Kind) + " of node " + name
	case controlplane.Provided:
		return "resource " + at.Name
	}
	return strings.TrimSuffix(string(at.Kind), "s") + " " + name
}

// deciding notes a decision of a policy, whose outcome follows: decided or failed.
func (k *loop) deciding(p *managedPolicy, s *esl.State, plan *esl.Plan) {
	if k.opts.Decisions == nil {
		return
	}
	p.decision = &decisions.Entry{Policy: p.label, Revision: k.view.Revision, Woken: p.wokenText(), Changes: decisions.Changes(plan), Reason: plan.Reason}
	p.woken = woken{}
	if *s.Looked != (esl.Looked{}) {
		p.decision.Looked = s.Looked
	}
	if plan.Nothing() {
		p.decision.Reason = cmp.Or(plan.Idle, lackText(s.Lacking))
	}
	if at := plan.RequeueAfter; !at.IsZero() {
		p.decision.Again = &at
	}
}

// lackText says which resources a policy found lacking; "" for none.
func lackText(lacking esl.Lacking) string {
	names := make([]string, 0, len(lacking))
	for id := range lacking {
		names = append(names, id.ID)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "there is too little of " + words.List(names, 3)
}

// decided records the outcome of the last decision.
func (k *loop) decided(p *managedPolicy, outcome decisions.Outcome) {
	if p.decision == nil {
		return
	}
	p.decision.Outcome = outcome
	k.record(p.of.id, *p.decision)
	p.decision = nil
}

// failed records that the last decision was refused, or failed. Of a policy that has ended since, the
// end is the last word.
func (k *loop) failed(p *managedPolicy, err error) {
	if p.decision == nil || p.gone {
		return
	}
	outcome := decisions.Failed
	if types.Is(err, types.Conflict) {
		outcome = decisions.Refused
	}
	p.decision.Error, _, _ = strings.Cut(err.Error(), "\n")
	again := p.retry
	p.decision.Again = &again
	k.decided(p, outcome)
}

// unreadable records a policy that this program cannot read.
func (k *loop) unreadable(id cluster.ID, label string, err error) {
	text, _, _ := strings.Cut(err.Error(), "\n")
	k.record(id, decisions.Entry{Policy: label, Revision: k.view.Revision, Outcome: decisions.Unreadable, Error: text})
}

// gone records the end of those policies of a key whose labels it does not have any more.
func (k *loop) gone(was *managed, stay []string) {
	if was == nil {
		return
	}
	for _, p := range was.policies {
		if !slices.Contains(stay, p.label) {
			k.record(was.id, decisions.Entry{Policy: p.label, Revision: k.view.Revision, Outcome: decisions.Ended})
		}
	}
}
