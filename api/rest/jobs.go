package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
)

// removedJob is the answer to the removal of a job.
type removedJob struct {
	Tasks int `json:"tasks" doc:"how many tasks were removed with it"`
}

// stoppedJob is the answer to the stop of a job.
type stoppedJob struct {
	Tasks []string `json:"tasks" nullable:"false" doc:"the tasks that had not ended"`
}

// jobs registers the operations on jobs.
func (s *service) jobs() {
	const path, tag = "/v1/namespaces/{namespace}/jobs", "jobs"
	add(s, operation{http.MethodGet, path, "listJobs", "List jobs, by id, with the phases of their tasks", tag},
		func(ctx context.Context, in *struct {
			InNamespace
			Listing
		},
		) (page[document.Job], error) {
			selects, err := in.selects()
			if err != nil {
				return page[document.Job]{}, err
			}
			view, err := s.jobView(ctx, in.Namespace)
			if err != nil {
				return page[document.Job]{}, err
			}
			var all []document.Job
			for id, j := range view.Jobs {
				if j.V != nil && selects(types.LabelMap(j.V.Labels)) {
					all = append(all, document.JobOf(view, id))
				}
			}
			return paged(&in.Part, view.Revision, all, func(j document.Job) string { return j.ID }), nil
		})
	add(s, operation{http.MethodGet, path + "/{id}", "getJob", "Describe a job", tag},
		func(ctx context.Context, in *ByID) (document.Job, error) {
			_, id, err := s.find(ctx, in, controlplane.Jobs)
			if err != nil {
				return document.Job{}, err
			}
			view, err := s.jobView(ctx, in.Namespace)
			if err != nil {
				return document.Job{}, err
			}
			key := cluster.ID{Namespace: in.Namespace, ID: id}
			if j := view.Jobs[key]; j == nil || j.V == nil {
				return document.Job{}, controlplane.Unreadable(controlplane.JobKey(in.Namespace, id))
			}
			return document.JobOf(view, key), nil
		})
	add(s, operation{http.MethodDelete, path + "/{id}", "removeJob", "Remove a job and its tasks, which have ended", tag},
		func(ctx context.Context, in *ByID) (removedJob, error) {
			client, id, err := s.find(ctx, in, controlplane.Jobs)
			if err != nil {
				return removedJob{}, err
			}
			n, err := client.RemoveJob(ctx, id)
			return removedJob{n}, err
		})
	post(s, operation{http.MethodPost, path + "/{id}/stop", "stopJob", "Stop all tasks of a job for good", tag},
		func(ctx context.Context, in *OnOne, b requests.Stop) (stoppedJob, error) {
			client, id, err := s.find(ctx, &in.ByID, controlplane.Jobs)
			if err != nil {
				return stoppedJob{}, err
			}
			ids, err := library.Stop(ctx, client, nil, []string{id}, controlplane.StopOptions{Reason: b.Reason, Grace: time.Duration(b.Grace)})
			return stoppedJob{append([]string{}, ids...)}, err
		})
	s.explain(path+"/{id}/why", "explainJob", "Explain the state of a job, such as why its tasks wait", tag, why.KindJob, controlplane.Jobs)
}

// jobView reads the jobs of a namespace, their tasks, and the status of these.
func (s *service) jobView(ctx context.Context, ns string) (*cluster.View, error) {
	return s.view(ctx, ns, controlplane.Jobs, controlplane.Tasks, controlplane.Statuses)
}
