package nodeagent

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/relabel"
	"github.com/escher-sched/escher/types"
)

// register stores the node if it differs from the stored one.
func (a *Agent) register(ctx context.Context) error {
	return a.retry(ctx, "register", func() error {
		was, err := a.registered(ctx)
		if err != nil {
			return err
		}
		// The devices found by an earlier agent suffice to begin with: a session must not expire
		// because a driver does not answer.
		limit := firstLook
		if len(was.devices.Devices) > 0 {
			limit = nextLook
		}
		found := a.findDevices(ctx, limit, was.devices.Devices)
		if a.ranBefore() {
			found = a.leaveAlone(found, was.devices.Devices)
		}
		return a.put(ctx, was, found)
	})
}

// ranBefore reports whether the agent had a session before. Devices that appeared since are no
// reason to fail.
func (a *Agent) ranBefore() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session != 0
}

// registration is the stored state of the node.
type registration struct {
	// nodeValue and devicesValue are nil if not stored; then the revisions are 0.
	nodeValue, devicesValue       []byte
	nodeRevision, devicesRevision int64
	devices                       types.Devices
}

// registered reads the stored state of the node.
func (a *Agent) registered(ctx context.Context) (registration, error) {
	var r registration
	for key, to := range map[string]struct {
		value    *[]byte
		revision *int64
	}{
		controlplane.NodeKey(a.cfg.Node):    {&r.nodeValue, &r.nodeRevision},
		controlplane.DevicesKey(a.cfg.Node): {&r.devicesValue, &r.devicesRevision},
	} {
		page, err := a.cfg.Store.List(ctx, controlplane.ListOptions{Key: key})
		if err != nil {
			return r, err
		}
		if len(page.KVs) > 0 {
			*to.value, *to.revision = page.KVs[0].Value, page.KVs[0].ModRevision
		}
	}
	if r.devicesValue == nil {
		return r, nil
	}
	if err := types.Decode(r.devicesValue, &r.devices); err != nil {
		a.log.Warn("the devices that are stored are not readable: they are stored again", zap.Error(err))
		r.devices = types.Devices{}
	}
	return r, nil
}

// put stores the node and its devices in one transaction: a capacity of devices must not be
// allocated without them. It does not write unchanged values again. Invalid: a resource has both a
// configured capacity and devices.
func (a *Agent) put(ctx context.Context, was registration, devices []types.Device) error {
	devices, allocated, err := a.dropGone(ctx, devices)
	if err != nil {
		return err
	}
	node, err := a.node(devices, was)
	if err != nil {
		return err
	}
	change := controlplane.NewChange(controlplane.NewBatch())
	// Each value depends on the other.
	change.IfUnchanged(controlplane.NodeKey(a.cfg.Node), was.nodeRevision)
	change.IfUnchanged(controlplane.DevicesKey(a.cfg.Node), was.devicesRevision)
	changed := false
	if was.nodeValue == nil || !types.Same(was.nodeValue, node) {
		changed = true
		change.Put(controlplane.NodeKey(a.cfg.Node), node)
	}
	stored := &types.Devices{Devices: devices}
	if was.devicesValue == nil && len(devices) > 0 || was.devicesValue != nil && !types.Same(was.devicesValue, stored) {
		changed = true
		change.Put(controlplane.DevicesKey(a.cfg.Node), stored)
	}
	if changed {
		if allocated.read {
			change.IfUnchanged(controlplane.AllocatedKey(a.cfg.Node), allocated.revision)
		}
		res, err := controlplane.Commit(ctx, a.cfg.Store, change.Txn())
		if err != nil {
			return err
		}
		if !res.Committed {
			return types.Errorf(types.Unavailable, "register %s: another program changed it", a.cfg.Node)
		}
	}
	a.setDevices(devices)
	return nil
}

// node returns the node with these devices. It keeps the labels that administrators have changed.
func (a *Agent) node(devices []types.Device, was registration) (*types.Node, error) {
	capacity, err := withDevices(a.cfg.capacity(), devices)
	if err != nil {
		return nil, err
	}
	node := &types.Node{
		Capacity: capacity, Labels: slices.Clone(a.cfg.Labels), Address: a.cfg.Address, Version: a.cfg.Version,
		PortFirst: a.cfg.Ports.First, PortLast: a.cfg.Ports.Last, Host: a.cfg.Host,
	}
	var stored types.Node
	if was.nodeValue != nil {
		if err := types.Decode(was.nodeValue, &stored); err != nil {
			a.log.Warn("the node that is stored is not readable: labels that were set are lost", zap.Error(err))
			stored = types.Node{}
		}
	}
	relabel.Inherit(node, &stored)
	return node, node.Validate()
}

// sameDevices reports whether two lists are equal when stored.
func sameDevices(a, b []types.Device) bool {
	return len(a) == len(b) && bytes.Equal(types.Encode(0, &types.Devices{Devices: a}), types.Encode(0, &types.Devices{Devices: b}))
}

// retry calls do until it succeeds, fails with an error that is not retryable, or ctx is done.
func (a *Agent) retry(ctx context.Context, what string, do func() error) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		if err != nil && !types.ClassOf(err).Retryable() {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(controlplane.RetryPolicy()), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, wait time.Duration) {
		a.log.Warn("to be tried again", zap.String("reason", what), zap.Duration("duration", wait), zap.Error(err))
	}))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
