package drain

import (
	"context"
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// Left is what is left on nodes that are becoming empty.
type Left struct {
	// Empty are the nodes that became empty last.
	Empty []string
	// Tasks are the tasks bound to the others, as namespace/id, by node.
	Tasks map[string][]string
}

// Wait returns when nodes that are being drained are empty. told, unless nil, is called at first and
// with each change. Precondition: a drain was ended.
func Wait(ctx context.Context, store controlplane.Store, nodes []string, told func(Left)) error {
	w := newWaiting(nodes, "drain", func(c *types.Cordon) bool { return c.Drain != types.DrainNone })
	return w.run(ctx, store, told)
}

// GiveUp declares a node dead, and returns when nothing is bound to it any more. told, unless nil, is
// called at first and with each change. Precondition: its agent is alive, or the word was taken back.
func GiveUp(ctx context.Context, client *controlplane.Client, node, reason string, told func(Left)) error {
	if err := client.DeclareDead(ctx, node, reason); err != nil {
		return err
	}
	w := newWaiting([]string{node}, "give up", func(c *types.Cordon) bool { return c.Dead })
	return w.run(ctx, client.Store(), told)
}

// waiting is a wait for nodes that become empty.
type waiting struct {
	verb string
	// goesOn reports whether a cordon makes the tasks of its node leave.
	goesOn func(*types.Cordon) bool
	// left are the bindings of nodes that are not empty yet, by node.
	left map[string]map[string]struct{}
	// leaving reports for which of the nodes it goes on.
	leaving map[string]bool
}

func newWaiting(nodes []string, verb string, goesOn func(*types.Cordon) bool) *waiting {
	w := &waiting{verb: verb, goesOn: goesOn, left: make(map[string]map[string]struct{}), leaving: make(map[string]bool)}
	for _, node := range nodes {
		w.left[node] = make(map[string]struct{})
	}
	return w
}

// run follows the nodes until all are empty.
func (w *waiting) run(ctx context.Context, store controlplane.Store, told func(Left)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	opts := controlplane.ListWatchOptions{Prefix: controlplane.Root, Skip: func(key string) bool {
		k, ok := controlplane.Parse(key)
		return !ok || w.left[k.Node] == nil || k.Kind != controlplane.Bindings && k.Kind != controlplane.Cordons
	}}
	err := controlplane.ListWatch(ctx, store, opts, func(u controlplane.Update) error {
		now, err := w.take(u)
		if told != nil && (len(now.Empty) > 0 || len(u.Events) > 0) {
			told(now)
		}
		if len(w.left) == 0 {
			stop()
		}
		return err
	})
	if len(w.left) == 0 {
		return nil
	}
	return err
}

// take applies changes.
func (w *waiting) take(u controlplane.Update) (Left, error) {
	for _, e := range u.Events {
		k, _ := controlplane.Parse(e.Key)
		switch {
		case w.left[k.Node] == nil: // it was empty already
		case k.Kind == controlplane.Bindings && e.Delete:
			delete(w.left[k.Node], e.Key)
		case k.Kind == controlplane.Bindings:
			w.left[k.Node][e.Key] = struct{}{}
		default:
			var c types.Cordon
			if !e.Delete && !controlplane.Read(e.KV, &c) {
				c = types.Cordon{}
			}
			w.leaving[k.Node] = w.goesOn(&c)
		}
	}
	now := Left{Tasks: make(map[string][]string)}
	var err error
	for _, node := range slices.Sorted(maps.Keys(w.left)) {
		bound := w.left[node]
		switch {
		case len(bound) == 0:
			delete(w.left, node)
			now.Empty = append(now.Empty, node)
			continue
		case !w.leaving[node] && err == nil:
			err = types.Errorf(types.Precondition, "%s node %s: the %s was ended elsewhere before %s left", w.verb, node, w.verb, words.Count(len(bound), "task"))
		}
		for _, key := range slices.Sorted(maps.Keys(bound)) {
			k, _ := controlplane.Parse(key)
			now.Tasks[node] = append(now.Tasks[node], k.Namespace+"/"+k.ID)
		}
	}
	return now, err
}
