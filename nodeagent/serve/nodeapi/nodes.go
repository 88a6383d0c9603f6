package nodeapi

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

const (
	// nodesAtOnce is the most nodes to ask at once.
	nodesAtOnce = 32
	// locateTimeout bounds the wait for a node that may know nothing.
	locateTimeout = 5 * time.Second
)

// Names returns the names of all nodes, sorted: alive ones, and the rest.
func Names(ctx context.Context, store controlplane.Store) (alive, away []string, err error) {
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

// On calls do with the client of a node.
func (d Dialer) On(ctx context.Context, node string, do func(*Client) error) error {
	c, err := d.Dial(ctx, node)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// Each calls do for every node, many at once, and returns the errors, by node.
func (d Dialer) Each(ctx context.Context, nodes []string, do func(context.Context, *Client) error) map[string]error {
	var mu sync.Mutex
	failed := make(map[string]error)
	var group errgroup.Group
	group.SetLimit(nodesAtOnce)
	for _, node := range nodes {
		group.Go(func() error {
			err := d.On(ctx, node, func(c *Client) error { return do(ctx, c) })
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[node] = err
			}
			return nil
		})
	}
	_ = group.Wait() // No function returns an error.
	return failed
}

// LoggedAt is the output of an attempt on a node.
type LoggedAt struct {
	Logged
	Node string `json:"node"`
}

// Logged asks all nodes for the attempts of a task whose output they have, and returns these in order.
// away are the nodes that did not answer.
func (d Dialer) Logged(ctx context.Context, ns, id string) (all []LoggedAt, away []string, err error) {
	if d.Server != nil {
		return d.Server.Logged(ctx, ns, id)
	}
	alive, away, err := Names(ctx, d.Store)
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	failed := d.Each(ctx, alive, func(ctx context.Context, c *Client) error {
		ctx, cancel := context.WithTimeout(ctx, locateTimeout)
		defer cancel()
		logged, err := c.Logged(ctx, ns, id)
		mu.Lock()
		defer mu.Unlock()
		for _, l := range logged {
			all = append(all, LoggedAt{l, c.Node()})
		}
		return err
	})
	for node := range failed {
		away = append(away, node)
	}
	slices.Sort(away)
	slices.SortFunc(all, func(a, b LoggedAt) int { return cmp.Compare(a.Attempt, b.Attempt) })
	return all, away, nil
}

// WhereLogged returns the nodes that have output of a task, by attempt. away are the nodes that did
// not answer.
func (d Dialer) WhereLogged(ctx context.Context, ns, id string) (nodes map[int]string, away []string, err error) {
	all, away, err := d.Logged(ctx, ns, id)
	nodes = make(map[int]string)
	for _, l := range all {
		nodes[l.Attempt] = l.Node
	}
	return nodes, away, err
}

// Find returns the node that has the output of an attempt. NotFound: none has. Unavailable: none that
// answers has.
func (d Dialer) Find(ctx context.Context, ns, id string, attempt int) (node string, err error) {
	nodes, away, err := d.WhereLogged(ctx, ns, id)
	switch {
	case err != nil:
		return "", err
	case nodes[attempt] != "":
		return nodes[attempt], nil
	case len(away) > 0:
		return "", types.Errorf(types.Unavailable, "find attempt %d of task %s: no node has its output, and these do not answer: %s", attempt, id, strings.Join(away, ", "))
	}
	return "", types.Errorf(types.NotFound, "find attempt %d of task %s: no node has its output", attempt, id)
}
