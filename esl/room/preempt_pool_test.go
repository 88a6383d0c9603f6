package room_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// TestPreemptPool evicts holders of a scarce cluster-wide resource, declared by hand, of a
// semaphore or a queue, and no others, even of lower priority.
func TestPreemptPool(t *testing.T) {
	for name, c := range map[string]struct {
		declare func(jobs *esl.Client) error
		task    controlplane.Submission
		by      esl.Policy
	}{
		"by hand": {func(jobs *esl.Client) error {
			_, err := jobs.SetResource(t.Context(), "license", 1000, controlplane.InCluster(), controlplane.SetOptions{Declare: true})
			return err
		}, esltest.Asking(hollow.Task(2000, "stop", "1s"), "license", 1000), nil},
		"semaphore": {func(jobs *esl.Client) error {
			return jobs.Declare(t.Context(), "db", admission.Semaphore{Limit: 1}, "")
		}, hollow.Task(2000, "stop", "1s"), esl.Use{Name: "db"}},
		"queue": {func(jobs *esl.Client) error { return jobs.Declare(t.Context(), "q", admission.Queue{Limit: 1}, "") }, hollow.Task(2000, "stop", "1s"), esl.Use{Name: "q"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, jobs := esltest.Ordered(t, 1) // of four cores
				if err := c.declare(jobs); err != nil {
					t.Fatal(err)
				}
				by := slices.DeleteFunc([]esl.Policy{c.by}, func(p esl.Policy) bool { return p == nil })
				lowest := esltest.Submitted(t, jobs, ofPriority(1, 1, hollow.Task(2000, "stop", "1s")))
				holder := esltest.Submitted(t, jobs, ofPriority(2, 1, c.task), by...)
				esltest.Statuses(t, jobs, controlplane.UntilRunning, slices.Concat(lowest.Tasks, holder.Tasks)...)
				high := esltest.Submitted(t, jobs, ofPriority(5, 1, c.task), append(by, room.Preempt{})...)
				esltest.Pass(10 * time.Second)
				if n, a := esltest.HowMany(t, cluster, high.Tasks), attempts(t, cluster, lowest.Tasks); n != 1 || a[0] != 1 || esltest.HowMany(t, cluster, lowest.Tasks) != 1 {
					t.Errorf("%d of 1 run, and who holds nothing of it is at attempt %d", n, a[0])
				}
				stopped(t, jobs, slices.Concat(lowest.Tasks, holder.Tasks, high.Tasks)...)
			})
		})
	}
}

// TestPreemptNotToBeHad does nothing if no eviction helps, and writes nothing: there is too little
// in all, the holders have a higher priority, or the resource would go with them.
func TestPreemptNotToBeHad(t *testing.T) {
	provides := hollow.Task(3000, "stop", "1s")
	provides.Task.Provides = []types.Provide{{Name: "license", Amount: 1000, When: types.WhenRunning}}
	for name, c := range map[string]struct {
		pool types.Quantity
		low  controlplane.Submission
	}{
		"less in all": {500, hollow.Task(3000, "stop", "1s")},
		"all held":    {1000, hollow.Task(3000, "stop", "1s")},
		"provided":    {0, provides},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, jobs := esltest.Ordered(t, 1)
				if c.pool > 0 {
					if _, err := jobs.SetResource(t.Context(), "license", c.pool, controlplane.InCluster(), controlplane.SetOptions{Declare: true}); err != nil {
						t.Fatal(err)
					}
				}
				all := esltest.Submitted(t, jobs, ofPriority(1, 1, c.low)).Tasks
				if c.pool == 1000 {
					all = append(all, esltest.Submitted(t, jobs, ofPriority(9, 1, esltest.Asking(hollow.Task(500), "license", 1000))).Tasks...)
				}
				esltest.Statuses(t, jobs, controlplane.UntilRunning, all...)
				high := esltest.Submitted(t, jobs, ofPriority(5, 1, esltest.Asking(hollow.Task(2000), "license", 1000)), room.Preempt{})
				esltest.Pass(5 * time.Second)
				before := revision(t, cluster)
				esltest.Pass(2 * time.Minute)
				if n := revision(t, cluster) - before; n > 0 || evictions(t, cluster, all) > 0 {
					t.Errorf("%d revisions while no task can be helped, and %d evictions", n, evictions(t, cluster, all))
				}
				stopped(t, jobs, append(all, high.Tasks...)...)
			})
		})
	}
}

// revision is that of the store.
func revision(t *testing.T, c *hollow.Cluster) int64 {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v.Revision
}
