package keep

import (
	"math"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

// usageOf returns the usage of a node after an answer; before itself if the node has measured nothing
// since then.
func usageOf(before *esl.NodeUsage, a answer) *esl.NodeUsage {
	now := &esl.NodeUsage{Received: a.received, Attempts: make(map[esl.Attempt]*esl.Used, len(a.said.Tasks))}
	newer := before == nil || len(a.said.Tasks) != len(before.Attempts)
	now.Steady = !newer
	add := func(was *esl.Used, use measured.Use, history []measured.Use) *esl.Used {
		used := usedOf(was, use, history)
		newer = newer || was == nil || used.At.After(was.At)
		return used
	}
	if before == nil {
		before = &esl.NodeUsage{}
	}
	for _, t := range a.said.Tasks {
		of := esl.Attempt{Task: cluster.ID{Namespace: t.Namespace, ID: t.Task}, Number: t.Attempt}
		now.Steady = now.Steady && before.Attempts[of] != nil
		used := add(before.Attempts[of], t.Use, t.History)
		used.Devices = t.Devices
		now.Attempts[of] = used
	}
	if m := a.said.Machine; m != nil {
		now.Machine, now.Devices = add(before.Machine, m.Use, m.History), m.Devices
		if m.MemoryLimitBytes != nil {
			now.MachineMemory = types.Quantity(*m.MemoryLimitBytes)
		}
	} else {
		newer = newer || len(a.said.Tasks) == 0 // it answers, and nothing runs
	}
	if !newer {
		return before
	}
	return now
}

// usedOf returns a usage with its peaks: those of before, of the history, and of now.
func usedOf(before *esl.Used, use measured.Use, history []measured.Use) *esl.Used {
	u := &esl.Used{At: use.At, Pressure: use.Pressure, PeakCPU: esl.Peak{Amount: esl.Unknown}, PeakMemory: esl.Peak{Amount: esl.Unknown}}
	if before != nil {
		u.PeakCPU, u.PeakMemory = before.PeakCPU, before.PeakMemory
		u.Lost, u.Over = lost(before, u)
	}
	for _, at := range append(history[:len(history):len(history)], use) {
		u.CPU, u.Memory = esl.Unknown, esl.Unknown
		if at.CPUMilli != nil {
			u.CPU = types.Quantity(math.Ceil(*at.CPUMilli))
		}
		if at.MemoryBytes != nil {
			u.Memory = types.Quantity(*at.MemoryBytes)
		}
		u.PeakCPU, u.PeakMemory = u.PeakCPU.With(u.CPU, at.At), u.PeakMemory.With(u.Memory, at.At)
	}
	return u
}

// lost returns the part of the time between two measurements in which processes waited, and that time; 0
// if one of them does not know it.
func lost(before, now *esl.Used) (part float64, over time.Duration) {
	over = now.At.Sub(before.At)
	if before.Pressure == nil || now.Pressure == nil || over <= 0 {
		return 0, 0
	}
	sum := 0.0
	for _, of := range []func(*measured.Pressure) *measured.Stall{
		func(p *measured.Pressure) *measured.Stall { return p.CPU },
		func(p *measured.Pressure) *measured.Stall { return p.Memory },
		func(p *measured.Pressure) *measured.Stall { return p.IO },
	} {
		if was, is := of(before.Pressure), of(now.Pressure); was != nil && is != nil {
			sum += (is.SomeSeconds + is.FullSeconds - was.SomeSeconds - was.FullSeconds) / 2
		}
	}
	return min(1, max(0, sum/over.Seconds())), over
}
