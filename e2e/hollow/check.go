package hollow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
)

// auditing is the audit of every revision.
type auditing struct {
	mu       sync.Mutex
	revision int64
	found    []audit.Finding
	changed  chan struct{}
}

func newAuditing() *auditing { return &auditing{changed: make(chan struct{})} }

func (a *auditing) follow(ctx context.Context, store controlplane.Store) error {
	return audit.Follow(ctx, store, zap.NewNop(), func(revision int64, found []audit.Finding) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.revision, a.found = revision, append(a.found, found...)
		close(a.changed)
		a.changed = make(chan struct{})
		return nil
	})
}

// upTo waits for a revision, and returns the findings until then.
func (a *auditing) upTo(ctx context.Context, revision int64) ([]audit.Finding, error) {
	for {
		a.mu.Lock()
		reached, found, changed := a.revision, slices.Clone(a.found), a.changed
		a.mu.Unlock()
		if reached >= revision {
			return found, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return found, ctx.Err()
		}
	}
}

// Audit checks the invariants of the cluster, at every revision so far and now. The error lists the
// violations.
func (c *Cluster) Audit(ctx context.Context) error {
	report, err := audit.Run(ctx, c.Store)
	if err != nil {
		return err
	}
	found := report.Findings
	if c.audit != nil {
		if found, err = c.audit.upTo(ctx, report.Revision); err != nil {
			return err
		}
	}
	var wrong []error
	for _, f := range found {
		wrong = append(wrong, errors.New(f.String()))
	}
	return errors.Join(wrong...)
}

// Left returns the remaining keys of a namespace except ended tasks, sorted: a clean application
// leaves none. They include what tasks left on purpose, by Provides on success.
func (c *Cluster) Left(ctx context.Context, ns string) ([]string, error) {
	v, err := c.View(ctx)
	if err != nil {
		return nil, err
	}
	kvs, _, err := controlplane.ListAll(ctx, c.Store, controlplane.ListOptions{Prefix: controlplane.Root, KeysOnly: true, Revision: v.Revision})
	if err != nil {
		return nil, err
	}
	var left []string
	for _, kv := range kvs {
		k, ok := controlplane.Parse(kv.Key)
		switch {
		case !ok:
			left = append(left, kv.Key)
		case k.Namespace != ns:
		case slices.Contains([]controlplane.Kind{controlplane.Tasks, controlplane.Statuses, controlplane.Specs, controlplane.Jobs, controlplane.Namespaces, controlplane.Histories}, k.Kind):
		default:
			left = append(left, strings.TrimPrefix(kv.Key, controlplane.Root))
		}
	}
	for name, n := range v.Nodes {
		if n.Allocated.V == nil {
			continue
		}
		for _, h := range n.Allocated.V.Holds {
			left = append(left, fmt.Sprintf("%s of %s on node %s", h.Amount.Format(h.Resource), h.Resource, name))
		}
	}
	slices.Sort(left)
	return left, nil
}
