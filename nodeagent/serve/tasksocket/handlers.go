package tasksocket

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

func (s *Server) self(*http.Request) (any, error) { return s.cfg.Self, nil }

func (s *Server) state(r *http.Request) (any, error) {
	wanted, err := answer.Flag(r, "reads")
	if err != nil {
		return nil, err
	}
	state, err := cluster.ClusterState(r.Context(), s.cfg.Client)
	if err != nil {
		return nil, err
	}
	out := State{State: *state}
	if wanted {
		out.Reads = state.Reads()
	}
	return out, nil
}

func (s *Server) set(r *http.Request, body *Set) (any, error) {
	x, err := s.resource(r.Context(), body)
	if err != nil {
		return nil, err
	}
	res, err := s.cfg.Client.SetResource(r.Context(), x.Name, x.Capacity, x.Where, x.Options)
	return Committed{Revision: res.Revision}, err
}

// resource converts a Set. Its defaults are the task's own node, and the task itself or its job.
func (s *Server) resource(ctx context.Context, body *Set) (controlplane.Resource, error) {
	x, err := body.resource(s.cfg.Self)
	if err == nil {
		err = s.ownSet(body, &x)
	}
	if err != nil || x.Options.Lifetime != types.OfJob || x.Options.Owner != "" {
		return x, err
	}
	self, err := s.cfg.Client.Status(ctx, s.cfg.Self.Task)
	if err == nil && self.Task.Job == "" {
		err = types.Errorf(types.Invalid, "owner: this task is of no job: name one, or use lifetime task")
	}
	x.Options.Owner = self.Task.Job
	return x, err
}

func (s *Server) launch(r *http.Request, body *Launch) (any, error) {
	tasks, err := body.Submissions()
	if err != nil {
		return nil, err
	}
	var res controlplane.Launched
	if body.Job != nil {
		res, err = s.cfg.Client.LaunchJob(r.Context(), body.Job.of(tasks))
	} else {
		res, err = s.cfg.Client.Launch(r.Context(), tasks...)
	}
	return launchedOf(res), err
}

func launchedOf(l controlplane.Launched) Launched {
	return Launched{Tasks: l.Tasks, Job: l.Job, Revision: l.Revision}
}

func (s *Server) tasks(r *http.Request) (any, error) {
	tasks, revision, err := s.cfg.Client.Tasks(r.Context())
	if err != nil {
		return nil, err
	}
	out := Tasks{Revision: revision, Tasks: make([]Status, len(tasks))}
	for i, t := range tasks {
		out.Tasks[i] = taskOf(&t)
	}
	return out, nil
}

func (s *Server) status(r *http.Request) (any, error) {
	t, err := s.cfg.Client.Status(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return taskOf(&t), nil
}

func (s *Server) stop(r *http.Request, body *Stop) (any, error) {
	err := s.cfg.Client.Stop(r.Context(), r.PathValue("id"), controlplane.StopOptions{Reason: body.Reason, Grace: time.Duration(body.Grace)})
	return Committed{}, err
}

func (s *Server) evict(r *http.Request, body *Evict) (any, error) {
	return Committed{}, s.cfg.Client.Evict(r.Context(), r.PathValue("id"), body.Attempt)
}

func (s *Server) reserve(r *http.Request, body *Reserve) (any, error) {
	return Committed{}, s.cfg.Client.Reserve(r.Context(), body.ID, body.reservation())
}

func (s *Server) unreserve(r *http.Request) (any, error) {
	return Committed{}, s.cfg.Client.Unreserve(r.Context(), r.PathValue("id"))
}

// wait answers when all tasks are in the requested state. After the timeout, it answers with those
// that are.
func (s *Server) wait(r *http.Request) (any, error) {
	query := r.URL.Query()
	until, ok := untils()[query.Get("until")]
	if !ok {
		return nil, types.Errorf(types.Invalid, "until: %q is unknown: use ended, healthy, running or bound", query.Get("until"))
	}
	ids := query["id"]
	if len(ids) == 0 {
		return nil, types.Errorf(types.Invalid, "id: is missing: name the tasks to wait for")
	}
	ctx := r.Context()
	if text := query.Get("timeout"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, types.Errorf(types.Invalid, "timeout: %q is no time to wait: write it such as 30s", text)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	found, err := s.cfg.Client.Wait(ctx, until, ids...)
	late := err != nil && ctx.Err() != nil && r.Context().Err() == nil
	if err != nil && !late {
		return nil, err
	}
	out := Waited{Complete: err == nil, Tasks: make([]Status, 0, len(found))}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		st := found[id]
		out.Tasks = append(out.Tasks, statusOf(id, "", &st))
	}
	return out, nil
}

// untils returns the states to wait for; the default is ended.
func untils() map[string]controlplane.Until {
	return map[string]controlplane.Until{
		"": controlplane.UntilEnded, "ended": controlplane.UntilEnded,
		"running": controlplane.UntilRunning, "bound": controlplane.UntilBound, "healthy": controlplane.UntilHealthy,
	}
}

func (s *Server) transact(r *http.Request, body *Transaction) (any, error) {
	if err := s.shown(body.If); err != nil {
		return nil, err
	}
	t := s.cfg.Client.Begin(body.If)
	for i := range body.Set {
		x, err := s.resource(r.Context(), &body.Set[i])
		if err != nil {
			return nil, types.Errorf(types.Invalid, "set[%d]: %w", i, err)
		}
		t.SetResource(x.Name, x.Capacity, x.Where, x.Options)
	}
	var out Committed
	for i := range body.Launch {
		l := &body.Launch[i]
		tasks, err := l.Submissions()
		if err != nil {
			return nil, types.Errorf(types.Invalid, "launch[%d]: %w", i, err)
		}
		if l.Job != nil {
			out.Launched = append(out.Launched, launchedOf(t.LaunchJob(l.Job.of(tasks))))
		} else {
			out.Launched = append(out.Launched, Launched{Tasks: t.Launch(tasks...)})
		}
	}
	for i := range body.Reserve {
		t.Reserve(body.Reserve[i].ID, body.Reserve[i].reservation())
	}
	for _, id := range body.Unreserve {
		t.Unreserve(id)
	}
	res, err := t.Commit(r.Context())
	out.Revision = res.Revision
	for i := range out.Launched {
		out.Launched[i].Revision = res.Revision
	}
	return out, err
}

// shown refuses a condition on a key that GET /v1/state does not show to the namespace: the answer
// would tell whether and when that key changed.
func (s *Server) shown(reads controlplane.ReadSet) error {
	for _, key := range slices.Sorted(maps.Keys(reads)) {
		if !cluster.Shown(s.cfg.Self.Namespace, key) {
			return types.Errorf(types.Invalid, "if: %q is nothing that GET /v1/state shows to namespace %s: give what its reads name, or a part of it", key, s.cfg.Self.Namespace)
		}
	}
	return nil
}
