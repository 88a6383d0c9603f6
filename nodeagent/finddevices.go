package nodeagent

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

const (
	// firstLook limits the first search for devices. nextLook limits it for a restarted agent: the
	// next search finds what this one misses.
	firstLook = 20 * time.Second
	nextLook  = 3 * time.Second
	// goneFor is how long a device that is gone and free stays listed, so that users can see it.
	goneFor = time.Hour
)

// keepDevices keeps the stored devices up to date.
func (a *Agent) keepDevices(ctx context.Context) error {
	if a.cfg.Devices == nil && len(a.nodeDevices()) == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	tick := time.NewTicker(a.cfg.ProbeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := a.lookAtDevices(ctx); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			a.log.Error("the devices are not stored as they are", zap.Error(err))
		}
	}
}

// lookAtDevices searches for devices once, and stores changes. Without changes it accesses this
// machine only.
func (a *Agent) lookAtDevices(ctx context.Context) error {
	known := a.nodeDevices()
	found := a.leaveAlone(a.findDevices(ctx, firstLook, known), known)
	if ctx.Err() != nil || sameDevices(known, found) && !slices.ContainsFunc(found, a.mayBeDropped) {
		return ctx.Err()
	}
	return a.retry(ctx, "store devices", func() error {
		was, err := a.registered(ctx)
		if err != nil {
			return err
		}
		return a.put(ctx, was, found)
	})
}

// leaveAlone omits devices that appear while the node runs if their resource has a configured
// capacity. The rest of the node stays up to date. Such devices that are known stay listed as gone,
// because a task may hold them.
func (a *Agent) leaveAlone(found, known []types.Device) []types.Device {
	var kept []types.Device
	var left []string
	for _, d := range found {
		if a.cfg.Capacity.Get(string(d.Resource)) == 0 || devices.IsGone(d.Unhealthy) {
			kept = append(kept, d)
			continue
		}
		left = append(left, d.ID)
		if at := slices.IndexFunc(known, func(k types.Device) bool { return k.ID == d.ID }); at >= 0 {
			kept = append(kept, known[at])
		}
	}
	if !slices.Equal(left, a.leftAlone) && len(left) > 0 {
		a.log.Warn("devices are left alone: a capacity of them is given. Leave it out, or do not look for devices (gpus none)", zap.String("resource", strings.Join(left, " ")))
	}
	a.leftAlone = left
	return kept
}

// findDevices searches for devices within a time limit.
func (a *Agent) findDevices(ctx context.Context, limit time.Duration, known []types.Device) []types.Device {
	source := a.cfg.Devices
	if source == nil {
		source = devices.Fixed(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return source.Find(ctx, known)
}

// setDevices records the stored devices, and logs changes of their health.
func (a *Agent) setDevices(now []types.Device) {
	a.mu.Lock()
	was := a.devices
	a.devices = now
	a.mu.Unlock()
	for _, d := range now {
		before := slices.IndexFunc(was, func(o types.Device) bool { return o.ID == d.ID })
		switch {
		case d.Unhealthy != "" && (before < 0 || was[before].Unhealthy != d.Unhealthy):
			a.log.Warn("device is not given out", zap.String("resource", d.ID), zap.String("reason", d.Unhealthy))
		case d.Unhealthy == "" && before >= 0 && was[before].Unhealthy != "":
			a.log.Info("device is well again", zap.String("resource", d.ID))
		}
	}
}

// nodeDevices returns the stored devices.
func (a *Agent) nodeDevices() []types.Device {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.devices
}

// withDevices adds the devices to a capacity. Unhealthy and gone devices count too: a task may hold
// them, and the scheduler allocates healthy ones only. Invalid: the capacity contains a resource
// that has devices.
func withDevices(capacity types.Requests, all []types.Device) (types.Requests, error) {
	const whole = 1000
	amounts := make(map[string]types.Quantity)
	for _, r := range capacity {
		amounts[r.Name] = r.Amount
	}
	for _, d := range all {
		name := string(d.Resource)
		given := capacity.Get(name)
		switch {
		case given == 0:
			amounts[name] += whole
		case !devices.IsGone(d.Unhealthy):
			return nil, types.Errorf(types.Invalid, "capacity: %s=%s is given, and this machine has devices of it, such as %s: leave it out, or do not look for devices (%s)",
				name, given.Format(d.Resource), d.ID, action.AgentNoGPUs.Of())
		}
	}
	return types.NewRequests(amounts), nil
}

// mayBeDropped reports whether a device can be removed from the list once it is free. That is so
// after goneFor, if the agent searches for no such devices, or if the device has a new name: it is
// allocated by that name once the old one is free.
func (a *Agent) mayBeDropped(d types.Device) bool {
	_, told := a.cfg.Devices.(devices.Fixed)
	long := time.Since(time.Unix(0, d.UnhealthySince)) >= goneFor
	return d.Unhealthy == devices.Moved || d.Unhealthy == devices.Gone && (long || told || a.cfg.Devices == nil || a.cfg.Capacity.Get(string(d.Resource)) != 0)
}

// allocation is the version of the node's allocated resources that was read.
type allocation struct {
	read     bool
	revision int64
}

// dropGone omits free devices that mayBeDropped selects.
func (a *Agent) dropGone(ctx context.Context, all []types.Device) ([]types.Device, allocation, error) {
	if !slices.ContainsFunc(all, a.mayBeDropped) {
		return all, allocation{}, nil
	}
	page, err := a.cfg.Store.List(ctx, controlplane.ListOptions{Key: controlplane.AllocatedKey(a.cfg.Node)})
	if err != nil {
		return nil, allocation{}, err
	}
	held, sure := a.heldHere()
	at := allocation{read: true}
	if len(page.KVs) > 0 {
		var allocated types.Allocated
		if err := types.Decode(page.KVs[0].Value, &allocated); err != nil {
			return all, allocation{}, nil // Drop nothing without knowing what is held.
		}
		at.revision = page.KVs[0].ModRevision
		for _, h := range allocated.Holds {
			for _, d := range h.Devices {
				held[d.ID] = true
			}
		}
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(d types.Device) bool {
		return a.mayBeDropped(d) && !held[d.ID] && (sure || d.Unhealthy != devices.Moved)
	})
	return kept, at, nil
}

// heldHere returns the devices that processes here may hold, including ones that the store does not
// show. sure reports whether all processes are known.
func (a *Agent) heldHere() (held map[string]bool, sure bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	held = make(map[string]bool)
	for _, t := range a.tasks {
		for _, s := range t.shares {
			if t.mayRun() {
				held[s.ID] = true
			}
		}
	}
	return held, a.synced && a.listed
}
