package server

import (
	"context"

	"github.com/coreos/go-semver/semver"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// minEtcd is the first etcd whose watches tell how far they are when they are asked.
const minEtcd = "3.4.0"

// quotaEtcd is the first etcd that tells its quota.
const quotaEtcd = "3.6"

// CheckEtcd looks whether the etcd behind a client is fit for a cluster, and returns
// what is to be changed for it to be fit for a large one. Precondition: it is too old, or
// tells no quota while quota, which is what it is started with, is 0. Unavailable: it does
// not answer.
func CheckEtcd(ctx context.Context, client *clientv3.Client, limits controlplane.Limits, quota int64) (advice []types.Text, err error) {
	m := etcdMaintenance{client: client}
	var failed error
	for _, endpoint := range client.Endpoints() {
		st, err := m.status(ctx, endpoint)
		if err != nil {
			failed = types.Errorf(types.Unavailable, "ask etcd at %s for its version: %w", endpoint, err)
			continue
		}
		return checkMember(endpoint, st.Version, st.DbSizeQuota, limits, quota)
	}
	return nil, failed
}

// checkMember is CheckEtcd of what a member tells of itself: its version, and its quota,
// which is 0 from one that tells none.
func checkMember(endpoint, version string, told int64, limits controlplane.Limits, quota int64) (advice []types.Text, err error) {
	v, err := semver.NewVersion(version)
	switch {
	case err != nil || v.LessThan(*semver.New(minEtcd)):
		return nil, types.Errorf(types.Precondition, "use etcd at %s: it is version %q: use %s or later", endpoint, version, minEtcd)
	case told == 0 && quota == 0:
		return nil, types.Errorf(types.Precondition, "use etcd at %s: it is version %s, which does not tell how large its database may get: "+
			"give %s what its --quota-backend-bytes is (2Gi if it has none), or use %s or later", endpoint, version, action.ServerEtcdQuota.Of(), quotaEtcd)
	case told != 0 && quota != 0 && told != quota:
		advice = append(advice, types.Textf("etcd tells that its quota is %s: %s does not count: leave it out", size(told), action.ServerEtcdQuota.Of()))
	}
	if limits.Ops < DefaultMaxTxnOps {
		advice = append(advice, types.Textf("etcd takes %d operations in a transaction: binding is slower, and so is granting a reservation over many nodes: start etcd with --max-txn-ops=%d",
			limits.Ops, DefaultMaxTxnOps))
	}
	return advice, nil
}
