package esl

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// follows refuses a job that comes after one that does not exist: it would end at once.
// Precondition.
func (c *Client) follows(ctx context.Context, beside []string, policies []Policy) error {
	for i, p := range policies {
		f, ok := p.(follower)
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
	lone, err := c.lone(ctx, name)
	switch {
	case err != nil:
		return err
	case len(lone) > 1:
		return types.Errorf(types.Precondition, "%q is the name of several tasks: give the id of one of %s", name, strings.Join(lone, ", "))
	case len(lone) == 1:
		return nil
	}
	return types.Errorf(types.Precondition, "%w", missing)
}

// lone returns the id of the task with the id name. Without one, it returns the ids of the jobless
// tasks with the label name: their ids begin with it.
func (c *Client) lone(ctx context.Context, name string) ([]string, error) {
	prefix := controlplane.Prefix(controlplane.Tasks, c.Namespace())
	kvs, _, err := controlplane.ListAll(ctx, c.Store(), controlplane.ListOptions{Prefix: prefix + name})
	var ids []string
	for _, kv := range kvs {
		var t types.Task
		switch id := strings.TrimPrefix(kv.Key, prefix); {
		case id == name:
			return []string{id}, err
		case types.Decode(kv.Value, &t) == nil && t.Job == "" && t.Name == name:
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Preceding is what is known of another job, or of a jobless task.
type Preceding struct {
	// Tasks are its tasks: of a job that is not being updated, only the current one of each index, and
	// none that an update has removed.
	Tasks []*cluster.Task
	// Forgotten is how many ended and were forgotten before this job was submitted.
	Forgotten int
	// Updating reports whether an update of the job has not finished: it has further tasks later.
	Updating bool
}

// Preceding returns the job with the id name, or the task with it. Without these it returns the newest
// job, or jobless task, with that label, submitted no later than this job.
func (s *State) Preceding(name string) Preceding {
	if p := s.preceding(name); len(p.Tasks) > 0 || p.Updating {
		return p
	}
	if t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: name}); t != nil && t.Info.V != nil {
		return Preceding{Tasks: []*cluster.Task{t}}
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
		return Preceding{Tasks: s.lone(name, now)}
	}
	return s.preceding(newest)
}

// preceding returns the job with an id.
func (s *State) preceding(job string) Preceding {
	p := Preceding{Tasks: s.JobTasks(job)}
	of := s.View.Jobs[cluster.ID{Namespace: s.Namespace, ID: job}]
	if of == nil || of.V == nil {
		return p
	}
	if p.Updating = of.V.Updating; !p.Updating {
		p.Tasks = currentTasks(p.Tasks, of.V.Tasks)
	}
	if own := s.View.Jobs[cluster.ID{Namespace: s.Namespace, ID: s.Job}]; own == nil || own.V == nil || s.Now.Sub(time.Unix(0, own.V.Submitted)) > remembers {
		return p
	}
	p.Forgotten = max(0, of.V.Tasks-len(p.Tasks))
	return p
}

// remembers is how long ended tasks are kept at least, with a margin: see server.Policy.KeepMin. An end
// after the submission of a job is seen before it is forgotten, so a task that is missing soon after
// that had ended before.
const remembers = 4 * time.Minute

// currentTasks returns the last task of each index, and leaves out those stopped for a count that is
// now smaller. Tasks of former versions have no index.
func currentTasks(tasks []*cluster.Task, count int) []*cluster.Task {
	if len(tasks) <= count {
		return tasks
	}
	last := make(map[int]*cluster.Task, len(tasks))
	for _, t := range tasks {
		if v := t.Info.V; v != nil && v.Count > 0 && (last[v.Index] == nil || later(t, last[v.Index])) {
			last[v.Index] = t
		}
	}
	for _, index := range slices.Backward(slices.Sorted(maps.Keys(last))) {
		if len(last) > count && last[index].Info.V.Stop != nil {
			delete(last, index)
		}
	}
	return slices.DeleteFunc(tasks, func(t *cluster.Task) bool {
		return t.Info.V != nil && t.Info.V.Count > 0 && last[t.Info.V.Index] != t
	})
}

// later reports whether a was submitted after b.
func later(a, b *cluster.Task) bool {
	return cmp.Or(cmp.Compare(a.Info.V.Submitted, b.Info.V.Submitted), cmp.Compare(a.Info.Create, b.Info.Create)) > 0
}

// lone returns the newest jobless task with a name that existed at a revision.
func (s *State) lone(name string, now int64) []*cluster.Task {
	var newest cluster.ID
	since := int64(0)
	for t := range s.View.Tasks() {
		if t.Info.V == nil || t.ID.Namespace != s.Namespace || t.Info.V.Name != name || t.Info.V.Job != "" || !strings.HasPrefix(t.ID.ID, name) {
			continue
		}
		if at := t.Info.Create; at <= now && at > since {
			newest, since = t.ID, at
		}
	}
	if since == 0 {
		return nil
	}
	return []*cluster.Task{s.View.Task(newest)}
}
