package esl

import (
	"math"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

// Measures returns the nodes that a policy wants to be measured, by its method Measures; nil if it has
// none. See measurer.
func Measures(p Policy, s *State) map[string]time.Duration {
	if m, ok := p.(measurer); ok {
		return m.Measures(s)
	}
	return nil
}

// MaxUsageAge is the age at which the usage of a node counts as unknown.
const MaxUsageAge = time.Minute

// A peak of the usage counts whole for PeakHold, and half after each PeakHalf from then on.
const (
	PeakHold = time.Minute
	PeakHalf = 30 * time.Second
)

// Unknown is an amount of Used that the node does not know.
const Unknown types.Quantity = -1

// NodeUsage is what a node measured.
type NodeUsage struct {
	// Received is when the answer came, by the clock of State.Now.
	Received time.Time
	// Machine is the usage by everything that runs on the machine; nil means unknown. Several nodes of
	// one machine, as of escher dev, show the same one. MachineMemory is the memory that it has.
	Machine       *Used
	MachineMemory types.Quantity
	// Attempts are the attempts that ran. Steady reports whether the answer before had the same ones.
	Attempts map[Attempt]*Used
	Steady   bool
	// Devices are the devices of the machine with known usage.
	Devices []measured.Device
}

// Attempt names an attempt of a task.
type Attempt struct {
	Task   cluster.ID
	Number int
}

// AttemptOf returns the name of a bound attempt.
func AttemptOf(b *cluster.Binding) Attempt { return Attempt{b.Task.ID, b.Number} }

// Used is the usage of an attempt or a machine at a time.
type Used struct {
	// At is when it was measured, by the clock of the node.
	At time.Time
	// CPU is the mean of the last seconds, in thousandths of a processor. Memory is in bytes, without
	// files that can be dropped at once. Each may be Unknown.
	CPU, Memory types.Quantity
	// PeakCPU and PeakMemory are the highest recent values. They rise at once, and fall slowly.
	PeakCPU, PeakMemory Peak
	// Pressure is how long its processes waited for each resource; nil means unknown.
	Pressure *measured.Pressure
	// Lost is the part of the time since the answer before in which its processes waited for a processor,
	// memory or a disk, from 0 to 1: the mean of the time when some waited and the time when all did.
	// Over is that time; 0 means unknown.
	Lost float64
	Over time.Duration
	// Devices are the devices that an attempt holds.
	Devices []measured.Device
}

// Usage returns what a node measured; nil means that it is unknown: no answer came, or the last one is
// older than MaxUsageAge.
func (s *State) Usage(node string) *NodeUsage {
	u := s.Measured[node]
	if u == nil || s.Now.Sub(u.Received) > MaxUsageAge {
		return nil
	}
	return u
}

// Peak is the highest recent value of an amount.
type Peak struct {
	// Amount is the value, or Unknown, and At when it was measured.
	Amount types.Quantity
	At     time.Time
}

// Counts returns how much a peak counts at a time.
func (p Peak) Counts(now time.Time) types.Quantity {
	after := now.Sub(p.At) - PeakHold
	if p.Amount <= 0 || after <= 0 {
		return p.Amount
	}
	return types.Quantity(float64(p.Amount) * math.Exp2(-after.Seconds()/PeakHalf.Seconds()))
}

// With returns the peak after another value. A value of nine tenths of the peak renews it: bursts are
// never quite alike.
func (p Peak) With(amount types.Quantity, at time.Time) Peak {
	if amount == Unknown || at.Before(p.At) {
		return p
	}
	switch counts := p.Counts(at); {
	case amount >= counts:
		return Peak{amount, at}
	case amount >= counts/10*9:
		return Peak{counts, at}
	}
	return p
}
