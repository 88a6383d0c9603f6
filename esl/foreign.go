package esl

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Foreign is a policy of somebody else, whose kind has a domain, acme.com/even. Nobody
// knows its parameters but its own program, which keeps it. Each task asks for one of a
// resource that is named after the job and the kind, <job>.even, and so waits until that
// program makes it, where it wants the task to go.
type Foreign struct {
	// Name is its kind.
	Name string
	// With are its parameters, a JSON object; empty: none.
	With string
}

// Kind is that of its program.
func (p Foreign) Kind() string { return p.Name }

// MarshalJSON returns the parameters.
func (p Foreign) MarshalJSON() ([]byte, error) {
	if p.With == "" {
		return []byte("{}"), nil
	}
	return []byte(p.With), nil
}

// Apply has each task ask for one.
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

// Why says so when nobody has made what the tasks ask for.
func (p Foreign) Why(s *State, task string) string {
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	rid := types.Resolve(s.Namespace, s.Own(""))
	if t == nil || t.Phase() != types.Pending || s.View.Pool(rid) != nil || len(s.View.At(rid)) > 0 || s.View.Everywhere[rid] != nil {
		return ""
	}
	return fmt.Sprintf("policy %s has not said yet where the task may run, as nobody has made %s: start the program that keeps it, unless it runs", p.Name, s.Own(""))
}

// foreign reports whether a kind is of a domain.
func foreign(kind string) bool { return strings.Contains(kind, "/") }
