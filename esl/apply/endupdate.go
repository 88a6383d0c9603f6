package apply

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// EndUpdate ends an unfinished update of a job, if there is one: its tasks stay as they are, and the
// client that makes the update adds no further task.
func EndUpdate(ctx context.Context, c *controlplane.Client, id string) error {
	for {
		kv, err := controlplane.Get(ctx, c.Store(), controlplane.JobKey(c.Namespace(), id))
		var job types.Job
		if err != nil || !controlplane.Read(kv, &job) || !job.Updating {
			return err
		}
		job.Updating = false
		tx := c.Begin()
		tx.UpdateJob(id, job, kv.ModRevision)
		if _, err := tx.Commit(ctx); !types.Is(err, types.Conflict) {
			return err
		}
	}
}
