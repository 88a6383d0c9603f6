package esl

import (
	"context"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Follows is a Policy of tasks that come after other jobs, which must be there when they
// are submitted, or be submitted with them.
type Follows interface {
	Policy
	// Follows returns the ids, or names, of these jobs, and ids of tasks.
	Follows() []string
}

// follows refuses what comes after a job that is not there: it would end at once.
// Precondition.
func (c *Client) follows(ctx context.Context, beside []string, policies []Policy) error {
	for i, p := range policies {
		f, ok := p.(Follows)
		if !ok {
			continue
		}
		for at, name := range f.Follows() {
			if err := c.jobThere(ctx, beside, name); err != nil {
				return types.Errorf(types.ClassOf(err), "policies[%d] (%s): jobs[%d]: %w", i, p.Kind(), at, err)
			}
		}
	}
	return nil
}

func (c *Client) jobThere(ctx context.Context, beside []string, name string) error {
	if err := types.ValidateName("job", name); err != nil {
		return err
	}
	if slices.Contains(beside, name) {
		return nil
	}
	missing := c.FindKind(ctx, controlplane.Jobs, name)
	if !types.Is(missing, types.NotFound) {
		return missing
	}
	jobs, _, err := controlplane.ListAll(ctx, c.Store(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Jobs, c.Namespace())})
	if err != nil {
		return err
	}
	for _, kv := range jobs {
		var j types.Job
		if types.Decode(kv.Value, &j) == nil && j.Name == name {
			return nil
		}
	}
	switch id, err := c.ResolveKind(ctx, controlplane.Tasks, name); {
	case err == nil && id == name:
		return nil
	case err == nil:
		return types.Errorf(types.Precondition, "there is no job %q in namespace %s: if you mean task %s, give its id", name, c.Namespace(), id)
	}
	return types.Errorf(types.Precondition, "%w", missing)
}

// called returns the tasks of the job of an id, or the task of it, or else those of the
// newest job of that name that was submitted before this one, or with it; and how many of
// that job had ended, and were forgotten, before this one was submitted.
func (s *State) called(name string) (tasks []*cluster.Task, forgotten int) {
	if tasks := s.JobTasks(name); len(tasks) > 0 {
		return tasks, s.forgotten(name, len(tasks))
	}
	if t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: name}); t != nil && t.Info.V != nil {
		return []*cluster.Task{t}, 0
	}
	now := int64(0)
	if own := s.View.Jobs[cluster.ID{Namespace: s.Namespace, ID: s.Job}]; own != nil {
		now = own.Create
	}
	newest, since := "", int64(0)
	for id, c := range s.View.Jobs {
		if id.Namespace != s.Namespace || id.ID == s.Job || c.V == nil || c.V.Name != name || c.Create > now {
			continue
		}
		if c.Create > since || c.Create == since && id.ID > newest {
			newest, since = id.ID, c.Create
		}
	}
	if newest == "" {
		return nil, 0
	}
	tasks = s.JobTasks(newest)
	return tasks, s.forgotten(newest, len(tasks))
}

// remembers is how long what has ended is there in any case, with something to spare: see
// server.Policy.KeepMin.
const remembers = 4 * time.Minute

// forgotten returns how many tasks of another job nobody has seen the end of on account of
// this one, of so many that are known. What ends after this one was submitted is seen before
// it is forgotten; so what is not there soon after that had ended before.
func (s *State) forgotten(job string, known int) int {
	of := s.View.Jobs[cluster.ID{Namespace: s.Namespace, ID: job}]
	own := s.View.Jobs[cluster.ID{Namespace: s.Namespace, ID: s.Job}]
	if of == nil || of.V == nil || own == nil || own.V == nil || s.Now.Sub(time.Unix(0, own.V.Submitted)) > remembers {
		return 0
	}
	return max(0, of.V.Tasks-known)
}
