package server

import (
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

// statusWait bounds how long a member may take to say how full it is.
const statusWait = 3 * time.Second

// cramped reports whether the file has reached the quota, or nearly, and rewriting it
// makes room: etcd goes by the size of the file, whatever is free in it. When it has
// begun to refuse, it takes what room there is.
func cramped(u controlplane.Usage) bool {
	switch {
	case u.Quota <= 0:
		return false
	case u.Alarm:
		return u.Share() < 0.85
	}
	return float64(u.File) >= 0.95*float64(u.Quota) && u.Share() < 0.65
}

// NewMaintenance returns the maintenance of the etcd behind a client: of all its
// members, which are its endpoints.
func NewMaintenance(client *clientv3.Client) controlplane.Maintenance { return etcdMaintenance{client} }

type etcdMaintenance struct{ client *clientv3.Client }

func (m etcdMaintenance) at() string { return strings.Join(m.client.Endpoints(), ", ") }

// Usage returns that of the member that is fullest, of those that answer.
func (m etcdMaintenance) Usage(ctx context.Context) (controlplane.Usage, error) {
	var most *controlplane.Usage
	var failed error
	for _, endpoint := range m.client.Endpoints() {
		st, err := m.status(ctx, endpoint)
		if err != nil {
			failed = errors.Join(failed, types.Errorf(types.Unavailable, "ask etcd at %s how full it is: %w", endpoint, err))
			continue
		}
		u := controlplane.Usage{Revision: st.Header.Revision, InUse: st.DbSizeInUse, File: st.DbSize, Quota: st.DbSizeQuota}
		if most == nil || u.File > most.File {
			most = &u
		}
	}
	if most == nil {
		return controlplane.Usage{}, types.Errorf(types.Unavailable, "%w", failed)
	}
	alarms, err := m.client.AlarmList(ctx)
	if err != nil {
		return controlplane.Usage{}, types.Errorf(types.Unavailable, "ask etcd at %s for alarms: %w", m.at(), err)
	}
	most.Alarm = slices.ContainsFunc(alarms.Alarms, func(a *pb.AlarmMember) bool { return a.Alarm == pb.AlarmType_NOSPACE })
	return *most, nil
}

// status asks one member, which may be away.
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

func (m etcdMaintenance) Defragment(ctx context.Context) error {
	// One after the other: the others answer meanwhile.
	for _, endpoint := range m.client.Endpoints() {
		if _, err := m.client.Defragment(ctx, endpoint); err != nil {
			return types.Errorf(types.Unavailable, "defragment etcd at %s: %w", endpoint, err)
		}
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
