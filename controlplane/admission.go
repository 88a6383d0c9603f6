package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
)

// closed returns why nothing new is admitted if one of the keys, as they were
// found, says so: Precondition.
func closed(ctx context.Context, s Store, keys []KV) error {
	for _, kv := range keys {
		if kv.Key != AdmissionKey() || kv.ModRevision == 0 {
			continue
		}
		kv, err := get(ctx, s, AdmissionKey())
		if err != nil || kv.ModRevision == 0 {
			return err
		}
		var a types.Admission
		if err := types.Decode(kv.Value, &a); err != nil {
			return err
		}
		return types.Errorf(types.Precondition, "nothing new is admitted: %s: try again later", a.Reason)
	}
	return nil
}
