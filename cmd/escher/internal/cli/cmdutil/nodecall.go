package cmdutil

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// nodesAtOnce is the most nodes to ask at once.
const nodesAtOnce = 32

// Node returns the client of a node's API, which the caller closes.
func (f *Factory) Node(ctx context.Context, name string) (*nodeapi.Client, error) {
	store, err := f.Store(ctx)
	if err != nil {
		return nil, err
	}
	conf, err := f.nodeTLS()
	if err != nil {
		return nil, err
	}
	return nodeapi.Dialer{Store: store, TLS: conf}.Dial(ctx, name)
}

// nodeTLS returns the authorities to trust for nodes: those of etcd, if any are given.
func (f *Factory) nodeTLS() (*tls.Config, error) {
	place, err := f.Place()
	if err != nil || place.CACert == "" {
		return nil, err
	}
	cfg, err := place.Config()
	return nodeapi.Trusting(cfg.TLS), err
}

// OnNode calls do with the client of a node.
func (f *Factory) OnNode(ctx context.Context, name string, do func(*nodeapi.Client) error) error {
	c, err := f.Node(ctx, name)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// NodeNames returns the names of all nodes, sorted: alive ones, and the rest.
func NodeNames(ctx context.Context, store controlplane.Store) (alive, away []string, err error) {
	nodes, revision, err := controlplane.ListAll(ctx, store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Nodes), KeysOnly: true})
	if err != nil {
		return nil, nil, err
	}
	there, _, err := controlplane.ListAll(ctx, store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Alive), Revision: revision, KeysOnly: true})
	if err != nil {
		return nil, nil, err
	}
	live := make(map[string]bool)
	for _, kv := range there {
		if k, ok := controlplane.Parse(kv.Key); ok {
			live[k.Node] = true
		}
	}
	for _, kv := range nodes {
		k, ok := controlplane.Parse(kv.Key)
		switch {
		case ok && live[k.Node]:
			alive = append(alive, k.Node)
		case ok:
			away = append(away, k.Node)
		}
	}
	return alive, away, nil
}

// EachNode calls do for every node, many at once, and returns the errors, by node.
func (f *Factory) EachNode(ctx context.Context, names []string, do func(context.Context, *nodeapi.Client) error) map[string]error {
	var mu sync.Mutex
	failed := make(map[string]error)
	var group errgroup.Group
	group.SetLimit(nodesAtOnce)
	for _, name := range names {
		group.Go(func() error {
			err := f.OnNode(ctx, name, func(c *nodeapi.Client) error { return do(ctx, c) })
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[name] = err
			}
			return nil
		})
	}
	_ = group.Wait() // No function returns an error.
	return failed
}

// NodesFailed joins the errors of nodes into one; nil if there are none. Errors of one class keep
// that class; else it is Unavailable.
func NodesFailed(what string, of int, failed map[string]error) error {
	if len(failed) == 0 {
		return nil
	}
	var texts []string
	class := types.Class(-1)
	for node, err := range failed {
		texts = append(texts, fmt.Sprintf("\n  %s: %s", node, types.Render(err, howto.Say)))
		if c := types.ClassOf(err); class == -1 || class == c {
			class = c
			continue
		}
		class = types.Unavailable
	}
	slices.Sort(texts)
	return types.Errorf(class, "%s: it failed on %d of %d nodes:%s", what, len(failed), of, strings.Join(texts, ""))
}

// WhereLogged asks all nodes for the attempts of a task whose output they have. away are the nodes
// that did not answer.
func (f *Factory) WhereLogged(ctx context.Context, ns, id string) (nodes map[int]string, away []string, err error) {
	store, err := f.Store(ctx)
	if err != nil {
		return nil, nil, err
	}
	alive, away, err := NodeNames(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	nodes = make(map[int]string)
	failed := f.EachNode(ctx, alive, func(ctx context.Context, c *nodeapi.Client) error {
		ctx, cancel := context.WithTimeout(ctx, locateTimeout)
		defer cancel()
		logged, err := c.Logged(ctx, ns, id)
		mu.Lock()
		defer mu.Unlock()
		for _, l := range logged {
			nodes[l.Attempt] = c.Node()
		}
		return err
	})
	for node := range failed {
		away = append(away, node)
	}
	slices.Sort(away)
	return nodes, away, nil
}

const TopAnswer = 4 * time.Second

// locateTimeout bounds the wait for a node that may know nothing.
const locateTimeout = 5 * time.Second
