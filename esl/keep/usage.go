package keep

import (
	"math"

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
