package cli

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Tasks is what can be done outside and inside a task alike.
type Tasks interface {
	SetResource(ctx context.Context, name string, capacity types.Quantity, where controlplane.Where, opts controlplane.SetOptions) (controlplane.SetResult, error)
	State(ctx context.Context) (*cluster.State, error)
	Launch(ctx context.Context, tasks ...controlplane.Submission) (controlplane.Launched, error)
	Wait(ctx context.Context, until controlplane.Until, ids ...string) (map[string]types.Status, error)
	Stop(ctx context.Context, id string, opts controlplane.StopOptions) error
}

// Tasks returns what can be done from here: over the socket inside a task, over
// etcd outside.
func (f *Factory) Tasks(ctx context.Context) (Tasks, error) {
	client, err := f.Client(ctx)
	if err != nil {
		return nil, err
	}
	return outside{client}, nil
}

// outside is a client of etcd.
type outside struct{ *controlplane.Client }

// State reads the state of the cluster.
func (o outside) State(ctx context.Context) (*cluster.State, error) {
	return cluster.ClusterState(ctx, o.Client)
}
