package parts

import (
	"cmp"
	"context"
	"errors"

	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Progress prints the progress of starting and stopping, in words for people.
type Progress func(format string, args ...any)

// Connect returns the store behind etcd. It waits for it as long as ctx lasts, and prints each
// reason once. It returns other errors than Unavailable at once.
func Connect(ctx context.Context, cfg etcdstore.Config, progress Progress) (store *etcdstore.Store, err error) {
	err = Persist(ctx, progress, func() error {
		if store, err = etcdstore.Dial(ctx, cfg); err != nil {
			err = types.Errorf(types.ClassOf(err), "%w: %s", err, cmp.Or(etcdstore.Remedy(err), types.Textf("start etcd there, or correct --endpoints")))
		}
		return err
	})
	return store, err
}

// Persist calls do until its error is neither Unavailable nor that the store is full, or ctx is
// done. It prints each reason to call it again once.
func Persist(ctx context.Context, progress Progress, do func() error) error {
	retry := controlplane.RetryPolicy()
	said := ""
	for {
		err := do()
		if !types.Is(err, types.Unavailable) && !errors.Is(err, controlplane.ErrFull) || ctx.Err() != nil {
			return err
		}
		if why := types.Render(err, howto.Say); why != said {
			progress("waiting: %s", why)
			said = why
		}
		if err := supervise.Pause(ctx, retry.NextBackOff()); err != nil {
			return err
		}
	}
}
