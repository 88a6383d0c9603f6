package library_test

import (
	"slices"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/types"
)

// TestStop stops a task, and the tasks of a job that have not ended, with the grace of each or the given
// one.
func TestStop(t *testing.T) {
	cluster, err := hollow.Start(t.Context(), hollow.Config{Nodes: hollow.Nodes(1, 4)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := controlplane.New(cluster.Store, "d")
	if err != nil {
		t.Fatal(err)
	}
	ends, waits, lone := hollow.Task(100, "run", "1ms"), hollow.Task(99_000, "run", "1s"), hollow.Task(99_000, "run", "1s")
	waits.Spec.Grace, lone.ID = 3*time.Second, "lone"
	job, err := client.LaunchJob(t.Context(), controlplane.Job{ID: "job", Name: "job", Tasks: []controlplane.Submission{ends, waits}})
	if err == nil {
		_, err = client.Wait(t.Context(), controlplane.UntilEnded, job.Tasks[0])
	}
	if err == nil {
		_, err = client.Launch(t.Context(), lone)
	}
	if err != nil {
		t.Fatal(err)
	}
	ids, err := library.Stop(t.Context(), client, nil, []string{"job"}, controlplane.StopOptions{Reason: "enough"})
	if err != nil || !slices.Equal(ids, job.Tasks[1:]) {
		t.Errorf("stopped %v, %v; want %v", ids, err, job.Tasks[1:])
	}
	if ids, err = library.Stop(t.Context(), client, []string{"lone"}, []string{"job"}, controlplane.StopOptions{Grace: time.Minute}); err != nil || !slices.Contains(ids, "lone") {
		t.Errorf("stopped %v, %v", ids, err)
	}
	for id, grace := range map[string]time.Duration{job.Tasks[1]: 3 * time.Second, "lone": time.Minute} {
		s, err := client.Status(t.Context(), id)
		if err != nil || s.Task.Stop == nil || s.Task.Stop.Grace != grace {
			t.Errorf("%s: %+v, %v; want %s", id, s.Task.Stop, err, grace)
		}
	}
	if _, err := library.Stop(t.Context(), client, []string{"gone"}, nil, controlplane.StopOptions{}); !types.Is(err, types.NotFound) {
		t.Errorf("a task that is gone: %v", err)
	}
}
