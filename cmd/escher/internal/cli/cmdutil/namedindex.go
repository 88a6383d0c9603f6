package cmdutil

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// ofIndex returns the task that JOB.INDEX or JOB/INDEX names: the last one of the index. found is false
// if name is neither, or there is no such job. NotFound: the job has no task of the index.
func ofIndex(ctx context.Context, client *controlplane.Client, name string) (task Named, found bool, err error) {
	at := strings.LastIndexAny(name, "./")
	if at <= 0 {
		return Named{}, false, nil
	}
	index, err := strconv.ParseUint(name[at+1:], 10, 32)
	if err != nil {
		return Named{}, false, nil
	}
	job, err := Find(ctx, client, name[:at], controlplane.Jobs)
	if types.Is(err, types.NotFound) {
		return Named{}, false, nil
	}
	if err != nil {
		return Named{}, false, err
	}
	if is, err := isOf(ctx, client, name[:at], job.ID); !is || err != nil {
		return Named{}, false, err
	}
	tasks, err := TasksOf(ctx, client, []Named{job})
	if err != nil {
		return Named{}, false, err
	}
	tasks = slices.DeleteFunc(tasks, func(t controlplane.TaskState) bool { return t.Task.Count == 0 || t.Task.Index != int(index) })
	if len(tasks) == 0 {
		return Named{}, false, types.Errorf(types.NotFound, "%s has no task of index %d: escher ps -a --job %s lists its tasks", job, index, job.ID)
	}
	last := slices.MaxFunc(tasks, func(a, b controlplane.TaskState) int { return cmp.Compare(a.Task.Submitted, b.Task.Submitted) })
	return Named{Kind: controlplane.Tasks, ID: last.ID}, true, nil
}

// isOf reports whether typed names the job with an id by its name, or by its id up to the part after its
// name at least: v1.2 is no task of a job v1.5.
func isOf(ctx context.Context, client *controlplane.Client, typed, id string) (bool, error) {
	if typed == id {
		return true, nil
	}
	kv, err := controlplane.Get(ctx, client.Store(), controlplane.JobKey(client.Namespace(), id))
	var job types.Job
	if err != nil || !controlplane.Read(kv, &job) {
		return false, err
	}
	return typed == job.Name || strings.HasPrefix(typed, job.Name+"-"), nil
}
