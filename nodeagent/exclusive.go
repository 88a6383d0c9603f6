package nodeagent

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// The scheduler gives a device to one whole holder, according to the store. A process can outlive
// its binding, after its node was cut off for a while. The store no longer shows it, and it may
// still hold its device. So the agent checks again before it starts a process.

// holder is an attempt on this node and its shares of devices.
type holder struct {
	// attempt is the name of the attempt: default/train (attempt 2).
	attempt string
	shares  []types.DeviceShare
}

// mayHave returns why an attempt cannot have its devices now; nil if it can. others are attempts
// that run or are not known to be dead. Unavailable: it may have them later.
func mayHave(wanted []types.DeviceShare, known []types.Device, others []holder) error {
	const whole types.Quantity = 1000
	for _, w := range wanted {
		at := slices.IndexFunc(known, func(d types.Device) bool { return d.ID == w.ID })
		switch {
		case at < 0:
			return types.Errorf(types.Unavailable, "wait for device %s: this node does not have it any more", w.ID)
		case devices.IsGone(known[at].Unhealthy):
			return types.Errorf(types.Unavailable, "wait for device %s: it is %s", w.ID, known[at].Unhealthy)
		case known[at].Unhealthy != "":
			return types.Errorf(types.Unavailable, "wait for device %s: it is unhealthy: %s", w.ID, known[at].Unhealthy)
		}
		sum := w.Share
		var holders []string
		for _, o := range others {
			for _, s := range o.shares {
				if s.ID == w.ID {
					sum += s.Share
					holders = append(holders, o.attempt)
				}
			}
		}
		if sum > whole && len(holders) > 0 {
			slices.Sort(holders)
			return types.Errorf(types.Unavailable, "wait for device %s: it is held by %s, not known to have ended", w.ID, words.List(holders, 8))
		}
	}
	return nil
}

// mayHaveDevices calls mayHave for this task and the other tasks of the node. The caller holds
// a.mu, and records the start of the task before it unlocks.
func (t *task) mayHaveDevices() error {
	if t.binding == nil {
		return nil
	}
	wanted := sharesOf(t.binding)
	if len(wanted) == 0 {
		return nil
	}
	var others []holder
	for _, o := range t.a.tasks {
		if o != t && o.mayRun() {
			others = append(others, holder{attempt: o.name(), shares: o.shares})
		}
	}
	return mayHave(wanted, t.a.devices, others)
}

// mayRun reports whether the attempt may have a process.
func (t *task) mayRun() bool {
	switch t.seen.Container {
	case Unknown, Starting, Running:
		return true
	}
	return false
}

func (t *task) name() string {
	return fmt.Sprintf("%s/%s (attempt %d)", t.attempt.Namespace, t.attempt.Task, t.attempt.Number)
}

// holds records the devices of a container with an unknown binding. It counts each as whole,
// because the shares are unknown too. The caller holds a.mu.
func (t *task) holds(names []string) {
	const whole types.Quantity = 1000
	if t.binding != nil || t.shares != nil {
		return
	}
	for _, name := range names {
		t.shares = append(t.shares, types.DeviceShare{ID: name, Share: whole})
	}
	slices.SortFunc(t.shares, func(a, b types.DeviceShare) int { return cmp.Compare(a.ID, b.ID) })
}
