package server

import (
	"context"
	"fmt"

	"github.com/coreos/go-semver/semver"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// minEtcd is the first etcd whose watches tell how far they are when they are asked.
const minEtcd = "3.4.0"

// CheckEtcd looks whether the etcd behind a client is fit for a cluster, and returns
// what is to be changed for it to be fit for a large one. Precondition: it is too old.
// Unavailable: it does not answer.
func CheckEtcd(ctx context.Context, client *clientv3.Client, limits controlplane.Limits) (advice []string, err error) {
	m := etcdMaintenance{client}
	var failed error
	for _, endpoint := range client.Endpoints() {
		st, err := m.status(ctx, endpoint)
		if err != nil {
			failed = types.Errorf(types.Unavailable, "ask etcd at %s for its version: %w", endpoint, err)
			continue
		}
		v, err := semver.NewVersion(st.Version)
		if err != nil || v.LessThan(*semver.New(minEtcd)) {
			return nil, types.Errorf(types.Precondition, "use etcd at %s: it is version %q: use %s or later", endpoint, st.Version, minEtcd)
		}
		if limits.Ops < DefaultMaxTxnOps {
			advice = append(advice, fmt.Sprintf("etcd takes %d operations in a transaction: binding is slower, and so is granting a reservation over many nodes: start etcd with --max-txn-ops=%d",
				limits.Ops, DefaultMaxTxnOps))
		}
		return advice, nil
	}
	return nil, failed
}
