package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// statusWait bounds the wait for the status of a member.
const statusWait = 3 * time.Second

// cramped reports whether the file is close to the quota and defragmentation would help. etcd
// compares the size of the file, whatever is free in it. Once etcd refuses writes, even a small
// gain counts.
func cramped(u controlplane.Usage) bool {
	switch {
	case u.Quota <= 0:
		return false
	case u.Alarm:
		return u.Share() < 0.85
	}
	return float64(u.File) >= 0.95*float64(u.Quota) && u.Share() < 0.65
}

// NewMaintenance returns the maintenance of all members of an etcd, which are the endpoints of a
// client. quota is used for versions before 3.6, which do not report theirs; 0 means unknown.
func NewMaintenance(client *clientv3.Client, quota int64) controlplane.Maintenance {
	return etcdMaintenance{client, quota}
}

type etcdMaintenance struct {
	client *clientv3.Client
	quota  int64
}

func (m etcdMaintenance) at() string { return strings.Join(m.client.Endpoints(), ", ") }

// Usage returns that of the fullest member that answers.
func (m etcdMaintenance) Usage(ctx context.Context) (controlplane.Usage, error) {
	members, err := m.members(ctx)
	if err != nil {
		return controlplane.Usage{}, err
	}
	most := slices.MaxFunc(members, func(a, b etcdMember) int { return cmp.Compare(a.File, b.File) })
	alarms, err := m.client.AlarmList(ctx)
	if err != nil {
		return controlplane.Usage{}, types.Errorf(types.Unavailable, "ask etcd at %s for alarms: %w", m.at(), err)
	}
	most.Alarm = slices.ContainsFunc(alarms.Alarms, func(a *pb.AlarmMember) bool { return a.Alarm == pb.AlarmType_NOSPACE })
	return most.Usage, nil
}

// etcdMember is a member of etcd that answers.
type etcdMember struct {
	endpoint string
	status   *clientv3.StatusResponse
	controlplane.Usage
}

// leads returns 1 for the leader and 0 for the others.
func (m etcdMember) leads() int {
	if m.status.Leader == m.status.Header.MemberId {
		return 1
	}
	return 0
}

// members returns the members that answer. Unavailable: none answers.
func (m etcdMaintenance) members(ctx context.Context) (found []etcdMember, failed error) {
	for _, endpoint := range m.client.Endpoints() {
		st, err := m.status(ctx, endpoint)
		if err != nil {
			failed = errors.Join(failed, types.Errorf(types.Unavailable, "ask etcd at %s how full it is: %w", endpoint, err))
			continue
		}
		found = append(found, etcdMember{endpoint, st, controlplane.Usage{
			Revision: st.Header.Revision, InUse: st.DbSizeInUse, File: st.DbSize, Quota: cmp.Or(st.DbSizeQuota, m.quota),
		}})
	}
	if len(found) == 0 {
		return nil, types.Errorf(types.Unavailable, "%w", failed)
	}
	return found, nil
}

// status asks one member, which may be down.
func (m etcdMaintenance) status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	return m.client.Status(ctx, endpoint)
}

func (m etcdMaintenance) Compact(ctx context.Context, revision int64) error {
	_, err := m.client.Compact(ctx, revision)
	if err == nil || errors.Is(err, rpctypes.ErrCompacted) {
		return nil
	}
	return types.Errorf(types.Unavailable, "compact etcd at %s to revision %d: %w", m.at(), revision, err)
}

// Defragment rewrites the members with large files, one after the other, while the others answer.
// Another server may have rewritten the rest just now. The leader comes last, and hands over its
// leadership first. Defragment skips members that do not answer. It clears the alarm if there is
// space now; otherwise the error is Precondition with controlplane.ErrFull.
func (m etcdMaintenance) Defragment(ctx context.Context) error {
	members, err := m.members(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(members, func(a, b etcdMember) int { return cmp.Compare(a.leads(), b.leads()) })
	for _, x := range members {
		if x.Quota > 0 && x.File < x.Quota/100*largeFile {
			continue
		}
		if x.leads() == 1 && len(members) > 1 {
			// If it stays the leader, writes only wait meanwhile.
			_ = m.handOver(ctx, x, members[0])
		}
		if _, err := m.client.Defragment(ctx, x.endpoint); err != nil {
			return types.Errorf(types.Unavailable, "defragment etcd at %s: %w", x.endpoint, err)
		}
	}
	return m.endAlarm(ctx)
}

// largeFile is the percentage of the quota from which a file is rewritten.
const largeFile = 85

// handOver makes another member the leader.
func (m etcdMaintenance) handOver(ctx context.Context, leader, next etcdMember) error {
	conn, err := m.client.Dial(leader.endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	_, err = pb.NewMaintenanceClient(conn).MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: next.status.Header.MemberId})
	return err
}

// endAlarm clears the alarm of a full database if every member has free space.
func (m etcdMaintenance) endAlarm(ctx context.Context) error {
	usage, err := m.Usage(ctx)
	switch {
	case err != nil:
		return err
	case !usage.Alarm:
		return nil
	case !usage.Roomy():
		return types.Errorf(types.Precondition, "free etcd at %s: after defragmentation it still takes %s of %s: %w", m.at(), size(usage.File), size(usage.Quota), controlplane.ErrFull)
	}
	alarms, err := m.client.AlarmList(ctx)
	if err != nil {
		return types.Errorf(types.Unavailable, "ask etcd at %s for alarms: %w", m.at(), err)
	}
	for _, a := range alarms.Alarms {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		if _, err := m.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(a)); err != nil {
			return types.Errorf(types.Unavailable, "end the alarm of etcd at %s: %w", m.at(), err)
		}
	}
	return nil
}
