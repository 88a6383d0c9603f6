package cmdutil

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/api/remote"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// Nodes returns what finds the APIs of nodes.
func (f *Factory) Nodes(ctx context.Context) (nodeapi.Dialer, error) {
	store, err := f.Store(ctx)
	if err != nil {
		return nodeapi.Dialer{}, err
	}
	if f.Served() {
		c, err := f.API(ctx)
		return nodeapi.Dialer{Store: store, Server: remote.Nodes(c)}, err
	}
	conf, err := f.nodeTLS()
	return nodeapi.Dialer{Store: store, TLS: conf}, err
}

// Node returns the client of a node's API, which the caller closes.
func (f *Factory) Node(ctx context.Context, name string) (*nodeapi.Client, error) {
	nodes, err := f.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	return nodes.Dial(ctx, name)
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
	nodes, err := f.Nodes(ctx)
	if err != nil {
		return err
	}
	return nodes.On(ctx, name, do)
}

// EachNode calls do for every node, many at once, and returns the errors, by node.
func (f *Factory) EachNode(ctx context.Context, names []string, do func(context.Context, *nodeapi.Client) error) map[string]error {
	nodes, err := f.Nodes(ctx)
	if err == nil {
		return nodes.Each(ctx, names, do)
	}
	failed := make(map[string]error)
	for _, name := range names {
		failed[name] = err
	}
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
	all, err := f.Nodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	return all.WhereLogged(ctx, ns, id)
}

const TopAnswer = 4 * time.Second
