package rest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// tasks registers the operations on tasks.
func (s *service) tasks() {
	const path, tag = "/v1/namespaces/{namespace}/tasks", "tasks"
	add(s, operation{http.MethodGet, path, "listTasks", "List tasks, by id", tag}, s.listTasks)
	post(s, operation{http.MethodPost, path, "launchTasks", "Launch tasks; several become a job, to which policies may apply", tag},
		func(ctx context.Context, in *InBody, b requests.Launch) (requests.Launched, error) {
			direct, err := s.direct(ctx, in.Namespace)
			if err == nil && b.Job != nil && len(b.Job.Policies) > 0 { // some read the nodes and the namespace
				var release func()
				if release, err = access.Acquire(ctx, tasksocket.Listing); err == nil {
					defer release()
				}
			}
			if err != nil {
				return requests.Launched{}, err
			}
			return direct.Launch(ctx, b)
		})
	add(s, operation{http.MethodGet, path + "/{id}", "getTask", "Describe a task", tag}, s.getTask)
	add(s, operation{http.MethodDelete, path + "/{id}", "removeTask", "Remove a task that has ended", tag},
		func(ctx context.Context, in *ByID) (requests.Committed, error) {
			client, id, err := s.find(ctx, in, controlplane.Tasks)
			if err != nil {
				return requests.Committed{}, err
			}
			return requests.Committed{}, client.Remove(ctx, id)
		})
	post(s, operation{http.MethodPost, path + "/{id}/stop", "stopTask", "Stop a task for good", tag},
		func(ctx context.Context, in *OnOne, b requests.Stop) (requests.Committed, error) {
			client, id, err := s.find(ctx, &in.ByID, controlplane.Tasks)
			if err != nil {
				return requests.Committed{}, err
			}
			_, err = library.Stop(ctx, client, []string{id}, nil, controlplane.StopOptions{Reason: b.Reason, Grace: time.Duration(b.Grace)})
			return requests.Committed{}, err
		})
	post(s, operation{http.MethodPost, path + "/{id}/evict", "evictTask", "End an attempt of a task, which then waits for its next one", tag},
		func(ctx context.Context, in *OnOne, b requests.Evict) (requests.Committed, error) {
			client, id, err := s.find(ctx, &in.ByID, controlplane.Tasks)
			if err != nil {
				return requests.Committed{}, err
			}
			return requests.Committed{}, client.Evict(ctx, id, b.Attempt)
		})
	add(s, operation{http.MethodGet, "/v1/namespaces/{namespace}/wait", "waitTasks", "Wait until tasks are in a state, or the time is over", tag}, s.wait)
	s.explain(path+"/{id}/why", "explainTask", "Explain the state of a task, such as why it waits", tag, why.KindTask, controlplane.Tasks)
}

// find returns a client of the namespace, and the whole id of an object. NotFound: there is none.
func (s *service) find(ctx context.Context, in *ByID, kind controlplane.Kind) (*controlplane.Client, string, error) {
	client, err := s.client(ctx, in.Namespace)
	if err != nil {
		return nil, "", err
	}
	id, err := client.ResolveKind(ctx, kind, in.ID)
	return client, id, err
}

// listedTasks is the input of listTasks.
type listedTasks struct {
	InNamespace
	Listing
	Job   string   `query:"job" maxLength:"256" doc:"lists only the tasks of the job with this id"`
	Phase []string `query:"phase" maxItems:"8" enum:"pending,bound,running,succeeded,failed,cancelled" doc:"lists only tasks in these phases, with commas between"`
}

// errFull ends the scan of a page that is full.
var errFull = errors.New("the page is full")

func (s *service) listTasks(ctx context.Context, in *listedTasks) (page[document.Task], error) {
	out := page[document.Task]{Items: []document.Task{}}
	client, err := s.client(ctx, in.Namespace)
	if err != nil {
		return out, err
	}
	selects, err := in.selects()
	if err != nil {
		return out, err
	}
	out.Revision, err = document.EachTask(ctx, client.Store(), in.Namespace, in.After, in.Limit+1, func(t controlplane.TaskState) error {
		switch {
		case in.Job != "" && t.Task.Job != in.Job:
		case len(in.Phase) > 0 && !slices.Contains(in.Phase, string(t.Phase())), !selects(types.LabelMap(t.Task.Labels)):
		case len(out.Items) == in.Limit:
			return errFull
		default:
			out.Items = append(out.Items, document.TaskOf(t))
		}
		return nil
	})
	if errors.Is(err, errFull) {
		out.Next, err = out.Items[len(out.Items)-1].ID, nil
	}
	return out, err
}

func (s *service) getTask(ctx context.Context, in *ByID) (document.Task, error) {
	client, err := s.client(ctx, in.Namespace)
	if err != nil {
		return document.Task{}, err
	}
	t, err := client.Status(ctx, in.ID)
	if err != nil {
		return document.Task{}, err
	}
	return document.TaskOf(t), nil
}

// waited is the input of waitTasks.
type waited struct {
	InNamespace
	ID      []string `query:"id,explode" required:"true" minItems:"1" maxItems:"1000" doc:"the ids of the tasks: repeat it for several"`
	Until   string   `query:"until" enum:"bound,running,healthy,ended" default:"ended" doc:"the state to wait for"`
	Timeout string   `query:"timeout" maxLength:"32" doc:"how long to wait, such as 30s; without limit if it is left out"`
}

func (s *service) wait(ctx context.Context, in *waited) (requests.Waited, error) {
	var timeout time.Duration
	if in.Timeout != "" {
		var err error
		if timeout, err = time.ParseDuration(in.Timeout); err != nil || timeout <= 0 {
			return requests.Waited{}, types.Errorf(types.Invalid, "timeout: %q is no time to wait: write it such as 30s", in.Timeout)
		}
	}
	direct, err := s.direct(ctx, in.Namespace)
	if err != nil {
		return requests.Waited{}, err
	}
	return direct.Wait(ctx, in.Until, timeout, in.ID...)
}
