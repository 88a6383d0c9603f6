package esl

import (
	"context"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/history"
	"github.com/escher-sched/escher/types"
)

// fewHistories is how many histories are read one by one. More are read with all of the namespace.
const fewHistories = 8

// histories reads the past runs of the tasks of a job, by name; nil if no policy needs them. One that
// cannot be read counts as none.
func (c *Client) histories(ctx context.Context, job controlplane.Job, policies []Policy) (map[string]*types.History, error) {
	needs := func(p Policy) bool { n, ok := p.(historyNeeder); return ok && n.NeedsHistory() }
	if !slices.ContainsFunc(policies, needs) {
		return nil, nil
	}
	all := make(map[string]*types.History)
	for i := range job.Tasks {
		if name := historyName(&job.Tasks[i], job.Name, job.Labels); name != "" {
			all[name] = nil
		}
	}
	take := func(kv controlplane.KV) {
		k, ok := controlplane.Parse(kv.Key)
		h := new(types.History)
		if _, asked := all[k.ID]; ok && asked && types.Decode(kv.Value, h) == nil {
			all[k.ID] = h
		}
	}
	if len(all) > fewHistories {
		kvs, _, err := controlplane.ListAll(ctx, c.Store(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Histories, c.Namespace())})
		for _, kv := range kvs {
			take(kv)
		}
		return all, err
	}
	for name := range all {
		kv, err := controlplane.Get(ctx, c.Store(), controlplane.HistoryKey(c.Namespace(), name))
		if err != nil {
			return nil, err
		}
		take(kv)
	}
	return all, nil
}

// History returns the past runs of a task, as the server has counted them; nil if there are none.
func (s *State) History(t *cluster.Task) *types.History {
	if h := s.View.Histories[cluster.ID{Namespace: s.Namespace, ID: s.HistoryName(t)}]; h != nil {
		return h.V
	}
	return nil
}

// HistoryName returns the name of the history of a task, which tasks of one kind share; "" if it has none.
func (s *State) HistoryName(t *cluster.Task) string {
	job := ""
	if j := s.View.Jobs[cluster.ID{Namespace: t.ID.Namespace, ID: t.Info.V.Job}]; j != nil && j.V != nil {
		job = j.V.Name
	}
	full := types.Task{Name: t.Info.V.Name, Job: t.Info.V.Job, Labels: t.Info.V.Labels}
	return history.Name(&full, job)
}

// originator is a Policy that changes what tasks request, and says where the amounts come from.
type originator interface {
	Origin(s *State, t *cluster.Task) []string
}

// SetsRequests reports whether a policy changes what tasks request, and says where the amounts come from.
func SetsRequests(p Policy) bool { _, ok := p.(originator); return ok }

// Origins returns where the requests of a task come from, by the policies of its job: a line for each
// request that one of them has set.
func Origins(v *cluster.View, kinds Kinds, task cluster.ID) (out []string) {
	t := v.Task(task)
	if t == nil || t.Info.V == nil {
		return nil
	}
	c := v.Policies[cluster.ID{Namespace: task.Namespace, ID: t.Info.V.Job}]
	if c == nil || c.V == nil {
		return nil
	}
	page := readEntry(cluster.ID{Namespace: task.Namespace, ID: t.Info.V.Job}, c, kinds)
	for i, p := range page.Policies {
		if o, ok := p.(originator); ok {
			s := &State{View: v, Namespace: task.Namespace, ID: t.Info.V.Job, Job: t.Info.V.Job, Label: page.Labels[i], Kinds: kinds}
			if err := Contain(func() { out = append(out, o.Origin(s, t)...) }); err != nil {
				says, _, _ := strings.Cut(err.Error(), "\n")
				out = append(out, "policy "+page.Labels[i]+" cannot say it: "+says)
			}
		}
	}
	return out
}
