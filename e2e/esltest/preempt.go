package esltest

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Put puts a key.
func Put(store controlplane.Store, key string, m types.Message) error {
	change := controlplane.NewChange(controlplane.NewBatch())
	change.Put(key, m)
	_, err := store.Commit(context.Background(), change.Txn())
	return err
}
