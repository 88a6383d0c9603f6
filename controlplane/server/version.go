package server

import (
	"context"

	"github.com/coreos/go-semver/semver"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// minEtcd is the first version of etcd whose watches report progress on request.
const minEtcd = "3.4.0"

// quotaEtcd is the first version of etcd that reports its quota.
const quotaEtcd = "3.6"

// CheckEtcd checks whether an etcd is fit for a cluster, and returns advice for a large one. quota
// is the quota it was started with. Precondition: it is too old, or does not report its quota while
// quota is 0. Unavailable: it does not answer.
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

// checkMember is CheckEtcd for the version and quota of a member; told is 0 if it does not report
// its quota.
func checkMember(endpoint, version string, told int64, limits controlplane.Limits, quota int64) (advice []types.Text, err error) {
	v, err := semver.NewVersion(version)
	switch {
	case err != nil || v.LessThan(*semver.New(minEtcd)):
		return nil, types.Errorf(types.Precondition, "use etcd at %s: it is version %q: use %s or later", endpoint, version, minEtcd)
	case told == 0 && quota == 0:
		return nil, types.Errorf(types.Precondition, "use etcd at %s: it is version %s, which does not report the quota of its database: "+
			"give %s what its --quota-backend-bytes is (2Gi if it has none), or use %s or later", endpoint, version, action.ServerEtcdQuota.Of(), quotaEtcd)
	case told != 0 && quota != 0 && told != quota:
		advice = append(advice, types.Textf("etcd reports a quota of %s, so %s has no effect: leave it out", size(told), action.ServerEtcdQuota.Of()))
	}
	if limits.Ops < DefaultMaxTxnOps {
		advice = append(advice, types.Textf("etcd accepts only %d operations in a transaction, so binding tasks and granting large reservations are slower: start etcd with --max-txn-ops=%d",
			limits.Ops, DefaultMaxTxnOps))
	}
	return advice, nil
}
