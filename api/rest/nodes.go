package rest

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/drain"
	"github.com/escher-sched/escher/controlplane/relabel"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// changed is the answer to a change of a node.
type changed struct {
	Changed bool `json:"changed" doc:"whether anything was different before"`
}

// cordoned is the body of cordonNode.
type cordoned struct {
	Reason string `json:"reason,omitempty" doc:"shown with the node"`
}

// drainOrder is the body of drainNode.
type drainOrder struct {
	Mode     types.DrainMode `json:"mode,omitempty" enum:"finish,move,stop" doc:"finish, the default, lets tasks end until the deadline; move makes them wait for their next attempt; stop ends them for good"`
	Deadline *types.Duration `json:"deadline,omitempty" doc:"of mode finish: how long tasks may go on; 1h if it is left out, and without limit if it is 0s"`
	Grace    *types.Duration `json:"grace,omitempty" doc:"between the stop signal and the kill of tasks that must leave, instead of their own"`
	Reason   string          `json:"reason,omitempty" doc:"shown with the node"`
}

// draining is the input of drainNode.
type draining struct {
	NodeBody
	Wait bool `query:"wait" doc:"answers when all tasks have left; else once the drain has begun"`
}

// drained is the answer of drainNode.
type drained struct {
	Changed bool `json:"changed" doc:"whether anything was different before"`
	drain.Staying
}

// left is the progress of a drain, or of giving up a node.
type left struct {
	Tasks []string `json:"tasks" nullable:"false" doc:"the tasks that are still there, as namespace/id"`
	// Stays is set in the first step of a drain.
	Stays *drain.Staying `json:"stays,omitempty" doc:"what can not leave"`
}

func leftOn(node string, tell func(left)) func(drain.Left) {
	return func(now drain.Left) { tell(left{Tasks: append([]string{}, now.Tasks[node]...)}) }
}

// relabeled is the body of labelNode.
type relabeled struct {
	Add       map[string]string `json:"add,omitempty" doc:"labels to add"`
	Remove    []string          `json:"remove,omitempty" doc:"names of labels to remove"`
	Overwrite bool              `json:"overwrite,omitempty" doc:"changes labels that have another value"`
}

// labeled is the answer of labelNode.
type labeled struct {
	Changed bool     `json:"changed" doc:"whether anything was different before"`
	Lacked  []string `json:"lacked,omitempty" doc:"the labels to remove that it did not have"`
}

// removal is the input of removeNode.
type removal struct {
	OnNode
	Dead   bool   `query:"dead" doc:"the machine is off or wiped, and never comes back as it was: gives up the tasks that are kept there"`
	Reason string `query:"reason" maxLength:"4096" doc:"with dead: shown with the node meanwhile"`
}

// administered registers the changes of nodes.
func (s *service) administered() {
	const path, tag = "/v1/nodes/{node}", "cluster"
	client := func(ctx context.Context) (*controlplane.Client, error) { return s.client(ctx, ofCluster) }
	post(s, operation{http.MethodPost, path + "/cordon", "cordonNode", "Bind no new tasks to a node; tasks that are there stay", tag},
		func(ctx context.Context, in *NodeBody, b cordoned) (out changed, err error) {
			c, err := client(ctx)
			if err == nil {
				out.Changed, err = c.Cordon(ctx, in.Node, types.Cordon{Reason: b.Reason})
			}
			return out, err
		})
	add(s, operation{http.MethodPost, path + "/uncordon", "uncordonNode", "Let a node take tasks again, and end its drain", tag},
		func(ctx context.Context, in *OnNode) (out changed, err error) {
			c, err := client(ctx)
			if err == nil {
				out.Changed, err = c.Uncordon(ctx, in.Node)
			}
			return out, err
		})
	long(s, body[drainOrder](s, operation{http.MethodPost, path + "/drain", "drainNode", "Bind no new tasks to a node, and move or end those that are there", tag}), s.drain)
	post(s, operation{http.MethodPost, path + "/labels", "labelNode", "Add labels to a node, change and remove labels", tag},
		func(ctx context.Context, in *NodeBody, b relabeled) (out labeled, err error) {
			change := relabel.Change{Remove: b.Remove, Overwrite: b.Overwrite}
			for _, name := range slices.Sorted(maps.Keys(b.Add)) {
				change.Add = append(change.Add, types.Label{Name: name, Value: b.Add[name]})
			}
			if len(change.Add)+len(change.Remove) == 0 {
				return out, types.Errorf(types.Invalid, "add: is missing, and remove too: name labels to add or remove")
			}
			was, changed, err := relabel.Node(ctx, s.cfg.Store, in.Node, change)
			out.Changed = changed
			for _, name := range b.Remove {
				if err == nil && !slices.ContainsFunc(was, func(l types.Label) bool { return l.Name == name }) {
					out.Lacked = append(out.Lacked, name)
				}
			}
			return out, err
		})
	remove := operation{http.MethodDelete, path, "removeNode", "Delete a node that never comes back", tag}
	long(s, s.described(remove), func(ctx context.Context, in *removal, tell func(left)) (out requests.Committed, err error) {
		c, err := client(ctx)
		if err == nil {
			err = c.FindKind(ctx, controlplane.Nodes, in.Node)
		}
		if err == nil && in.Reason != "" && !in.Dead {
			err = types.Errorf(types.Invalid, "reason: is of dead alone, as nothing is left of a node that is forgotten: leave it out, or add dead=true")
		}
		if err == nil && in.Dead {
			err = drain.GiveUp(ctx, c, in.Node, in.Reason, leftOn(in.Node, tell))
		}
		if err == nil {
			err = c.Forget(ctx, in.Node)
		}
		return out, err
	})
}

// drain drains a node.
func (s *service) drain(ctx context.Context, in *draining, tell func(left)) (out drained, err error) {
	b, err := tasksocket.Decode[drainOrder](in.RawBody, "/openapi.json")
	if err != nil {
		return out, err
	}
	cordon, err := drain.Order{Mode: b.Mode, Deadline: (*time.Duration)(b.Deadline), Grace: (*time.Duration)(b.Grace), Reason: b.Reason}.Cordon(s.cfg.Now())
	if err != nil {
		return out, err
	}
	client, err := s.client(ctx, ofCluster)
	if err != nil {
		return out, err
	}
	if out.Changed, err = client.Cordon(ctx, in.Node, cordon); err != nil {
		return out, err
	}
	if out.Staying, err = drain.WhatStays(ctx, s.cfg.Store, in.Node, cordon.Drain); err != nil || !in.Wait {
		return out, err
	}
	tell(left{Tasks: []string{}, Stays: &out.Staying})
	return out, drain.Wait(ctx, s.cfg.Store, []string{in.Node}, leftOn(in.Node, tell))
}
