package cmdutil

import (
	"context"
	"time"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/labels"
)

// Tasks is what can be done outside and inside a task alike.
type Tasks interface {
	Set(ctx context.Context, s SetRequest) (controlplane.SetResult, error)
	State(ctx context.Context) (*cluster.State, error)
	Launch(ctx context.Context, tasks ...controlplane.Submission) (controlplane.Launched, error)
	LaunchJob(ctx context.Context, job controlplane.Job, policies ...esl.Policy) (controlplane.Launched, error)
	Wait(ctx context.Context, until controlplane.Until, ids ...string) (map[string]types.Status, error)
	Stop(ctx context.Context, id string, opts controlplane.StopOptions) error
	// Selected returns the ids of the tasks with some labels; with live, only of those that have not
	// ended.
	Selected(ctx context.Context, by labels.Selector, live bool) ([]string, error)
}

// SetRequest is a resource to be set.
type SetRequest struct {
	Name     string
	Capacity types.Quantity
	// Here is the node of the task that asks; else it is in the cluster, or on
	// the nodes of sel.
	Here, Cluster bool
	Sel           types.Selector
	Opts          controlplane.SetOptions
}

// Tasks returns what can be done from here: over the socket inside a task, else over the HTTP API of a
// server, or over etcd.
func (f *Factory) Tasks(ctx context.Context) (Tasks, error) {
	if f.InTask() {
		place, err := f.Place()
		if err != nil {
			return nil, err
		}
		socket, err := requests.AtSocket(place.Socket, place.Namespace, time.Now)
		return inside{requesting{socket}}, err
	}
	client, err := f.Client(ctx)
	if err != nil {
		return nil, err
	}
	return f.Direct(client), nil
}

// Direct is a client outside of a task, as Tasks.
type Direct struct {
	*controlplane.Client

	// api makes the changes by the HTTP API of a server; nil means that the client makes them.
	api *requesting
}

// Direct returns a client of the namespace as Tasks.
func (f *Factory) Direct(client *controlplane.Client) Direct {
	if !f.Served() {
		return Direct{Client: client}
	}
	return Direct{client, &requesting{requests.NewClient(f.api, f.Namespace(), time.Now)}}
}

// Launch submits tasks.
func (o Direct) Launch(ctx context.Context, tasks ...controlplane.Submission) (controlplane.Launched, error) {
	if o.api != nil {
		if err := o.addSpecs(ctx, tasks); err != nil {
			return controlplane.Launched{}, err
		}
		return o.api.Launch(ctx, tasks...)
	}
	return library.Launch(ctx, builtin.New(o.Client), tasks...)
}

// addSpecs adds the specs that tasks name by their digests.
func (o Direct) addSpecs(ctx context.Context, tasks []controlplane.Submission) error {
	known := make(map[string]*types.Spec)
	for i := range tasks {
		digest := tasks[i].Task.Spec
		if tasks[i].Spec != nil || digest == "" {
			continue
		}
		if known[digest] == nil {
			spec, err := o.Spec(ctx, digest)
			if err != nil {
				return err
			}
			known[digest] = spec
		}
		tasks[i].Spec = known[digest]
	}
	return nil
}

// Stop ends a task for good.
func (o Direct) Stop(ctx context.Context, id string, opts controlplane.StopOptions) error {
	if o.api != nil {
		return o.api.Stop(ctx, id, opts)
	}
	return o.Client.Stop(ctx, id, opts)
}

// Set sets a resource.
func (o Direct) Set(ctx context.Context, s SetRequest) (controlplane.SetResult, error) {
	if o.api != nil {
		return o.api.Set(ctx, s)
	}
	where := manifest.NodesOf(s.Sel)
	if s.Cluster {
		where = controlplane.InCluster()
	}
	return o.SetResource(ctx, s.Name, s.Capacity, where, s.Opts)
}

// LaunchJob submits a job, to which policies may apply.
func (o Direct) LaunchJob(ctx context.Context, job controlplane.Job, policies ...esl.Policy) (controlplane.Launched, error) {
	if o.api != nil {
		if err := o.addSpecs(ctx, job.Tasks); err != nil {
			return controlplane.Launched{}, err
		}
		return o.api.LaunchJob(ctx, job, policies...)
	}
	return library.Submit(ctx, builtin.New(o.Client), job, policies...)
}

// Selected returns the ids of tasks by their labels.
func (o Direct) Selected(ctx context.Context, by labels.Selector, live bool) ([]string, error) {
	var ids []string
	_, err := o.EachTask(ctx, func(t controlplane.TaskState) error {
		if by.Matches(t.Task.Labels) && !(live && t.Phase().Ended()) {
			ids = append(ids, t.ID)
		}
		return nil
	})
	return ids, err
}

// State reads the state of the cluster.
func (o Direct) State(ctx context.Context) (*cluster.State, error) {
	if o.api != nil {
		return o.api.State(ctx)
	}
	return cluster.ClusterState(ctx, o.Client)
}
