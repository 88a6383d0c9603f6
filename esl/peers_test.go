package esl_test

import (
	"cmp"
	"reflect"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// friendly is a policy whose tasks know each other.
type friendly struct{ peers types.Peers }

func (friendly) Kind() string { return "friendly" }

func (friendly) Apply(*esl.Group) error { return nil }

func (f friendly) Peers() types.Peers { return cmp.Or(f.peers, types.WholePeers) }

// TestGroupSetsPeers sets peers and a port where a task has none, in specs of its own, and finds
// the task as requested again.
func TestGroupSetsPeers(t *testing.T) {
	port := types.Node{PortFirst: 1, PortLast: 2}
	for name, c := range map[string]struct {
		policies []esl.Policy
		nodes    map[string]*types.Node
		spec     types.Spec
		requests types.Requests
		tasks    int
		peers    types.Peers
		ports    int64
	}{
		"no policy":                 {nil, map[string]*types.Node{"a": &port}, types.Spec{}, nil, 2, types.NoPeers, 0},
		"a policy":                  {[]esl.Policy{friendly{}}, map[string]*types.Node{"a": &port}, types.Spec{}, nil, 2, types.WholePeers, 1},
		"a node without ports":      {[]esl.Policy{friendly{}}, map[string]*types.Node{"a": &port, "b": {}}, types.Spec{}, nil, 2, types.WholePeers, 0},
		"a node of a later version": {[]esl.Policy{friendly{}}, map[string]*types.Node{"a": &port, "b": nil}, types.Spec{}, nil, 2, types.WholePeers, 0},
		"no nodes":                  {[]esl.Policy{friendly{}}, nil, types.Spec{}, nil, 2, types.WholePeers, 0},
		"peers of its own":          {[]esl.Policy{friendly{}}, map[string]*types.Node{"a": &port}, types.Spec{Peers: types.AnyPeers}, nil, 2, types.AnyPeers, 0},
		"ports of its own": {
			[]esl.Policy{friendly{}}, map[string]*types.Node{"a": &port},
			types.Spec{Ports: []types.TaskPort{{Name: "x"}, {Name: "y"}}}, types.Requests{{Name: "port", Amount: 2000}}, 2, types.WholePeers, 2,
		},
		"many tasks":             {[]esl.Policy{friendly{}}, map[string]*types.Node{"a": &port}, types.Spec{}, nil, types.MaxPeers + 1, types.WholePeers, 1},
		"many tasks that follow": {[]esl.Policy{friendly{types.RunningPeers}}, map[string]*types.Node{"a": &port}, types.Spec{}, nil, types.MaxPeers + 1, types.NoPeers, 0},
	} {
		t.Run(name, func(t *testing.T) {
			spec := c.spec
			task := types.Task{Requests: c.requests}
			g := &esl.Group{Namespace: "d", ID: "j", Tasks: esl.Copies(c.tasks, controlplane.Submission{Task: task, Spec: &spec}), Nodes: c.nodes}
			if err := g.Apply(c.policies); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(spec, c.spec) {
				t.Errorf("the caller's spec is %+v", spec)
			}
			for i, s := range g.Tasks {
				if s.Spec.Peers != c.peers || int64(s.Task.Requests.Get("port")) != 1000*c.ports || int64(len(s.Spec.Ports)) != c.ports || s.Spec != g.Tasks[0].Spec {
					t.Fatalf("tasks[%d]: %+v, %+v", i, s.Task, s.Spec)
				}
			}
			was, is := esl.WithoutPeers(g.Tasks[0].Task, g.Tasks[0].Spec, &spec)
			if !reflect.DeepEqual(*is, c.spec) || len(was.Requests) != len(c.requests) {
				t.Errorf("as requested: %+v, %+v", was, is)
			}
		})
	}
}
