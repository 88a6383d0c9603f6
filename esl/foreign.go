package esl

import (
	"encoding/json"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
)

// Foreign is a policy of another program. Its kind has a domain, such as acme.com/even, and only
// that program knows its parameters. Each task requests one of a resource named after the job and
// the kind, <job>.even. So it waits until the program creates that resource on the node where the
// task shall run.
type Foreign struct {
	// Name is the kind.
	Name string
	// With holds the parameters, a JSON object; empty means none.
	With string
}

// Kind returns the kind of the policy.
func (p Foreign) Kind() string { return p.Name }

// MarshalJSON returns the parameters.
func (p Foreign) MarshalJSON() ([]byte, error) {
	if p.With == "" {
		return []byte("{}"), nil
	}
	return []byte(p.With), nil
}

// Apply makes each task request one of the resource.
func (p Foreign) Apply(g *Group) error {
	if err := p.check(); err != nil {
		return err
	}
	g.AskAll(g.Own(""), One)
	return nil
}

func (p Foreign) check() error {
	var object map[string]json.RawMessage
	if p.With != "" && (json.Unmarshal([]byte(p.With), &object) != nil || object == nil) {
		return Invalid("with: the parameters are no JSON object: write them like {\"every\": 2}")
	}
	return nil
}

// Why reports a task that waits because its resource has not been created.
func (p Foreign) Why(s *State, task string) why.Reason {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	rid := types.Resolve(s.Namespace, s.Own(""))
	if t == nil || t.Phase() != types.Pending || s.View.Pool(rid) != nil || len(s.View.At(rid)) > 0 || s.View.Everywhere[rid] != nil {
		return why.Reason{}
	}
	return why.Say(why.NoKeeper, "policy %s has not said yet where the task may run: its program has not created %s: start the program, unless it runs", p.Name, s.Own(""))
}

// foreign reports whether a kind has a domain.
func foreign(kind string) bool { return strings.Contains(kind, "/") }
