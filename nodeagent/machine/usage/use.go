// Package usage samples what the attempts on a node use, and the machine: processors,
// memory, block devices, pressure and devices such as GPUs. What it knows is in memory
// alone, for some minutes; nothing of it goes to the store. docs/usage.md says where each
// number comes from.
package usage

import (
	"time"
)

// Use is what an attempt or a machine used at a time. What is not known is nil, and left
// out of the JSON: that is not the same as 0. Counters are since the process was started,
// or the machine.
type Use struct {
	At time.Time `json:"at"`
	// OverSeconds is how long rates were measured for; 0 where there are none yet.
	OverSeconds float64 `json:"overSeconds,omitempty"`

	// CPUSeconds is processor time; CPUMilli is thousandths of a processor, lately;
	// ThrottledSeconds is how long it was held back by its limit.
	CPUSeconds       *float64 `json:"cpuSeconds,omitempty"`
	CPUMilli         *float64 `json:"cpuMilli,omitempty"`
	ThrottledSeconds *float64 `json:"throttledSeconds,omitempty"`

	// MemoryBytes is what it has now, without files that can be dropped at once; RSS is
	// without any files; Peak is the most there was, with all of them; Limit is what it
	// may have, or the machine has.
	MemoryBytes      *int64 `json:"memoryBytes,omitempty"`
	MemoryRSSBytes   *int64 `json:"memoryRssBytes,omitempty"`
	MemoryPeakBytes  *int64 `json:"memoryPeakBytes,omitempty"`
	MemoryLimitBytes *int64 `json:"memoryLimitBytes,omitempty"`
	// OOMKills is how many processes were killed for want of memory.
	OOMKills *int64 `json:"oomKills,omitempty"`

	// What went to and came from block devices.
	IOReadBytes           *int64   `json:"ioReadBytes,omitempty"`
	IOWriteBytes          *int64   `json:"ioWriteBytes,omitempty"`
	IOReads               *int64   `json:"ioReads,omitempty"`
	IOWrites              *int64   `json:"ioWrites,omitempty"`
	IOReadBytesPerSecond  *float64 `json:"ioReadBytesPerSecond,omitempty"`
	IOWriteBytesPerSecond *float64 `json:"ioWriteBytesPerSecond,omitempty"`

	// Processes has threads counted, too.
	Processes *int64    `json:"processes,omitempty"`
	Pressure  *Pressure `json:"pressure,omitempty"`
}

// Pressure is how long something waited for each resource.
type Pressure struct {
	CPU    *Stall `json:"cpu,omitempty"`
	Memory *Stall `json:"memory,omitempty"`
	IO     *Stall `json:"io,omitempty"`
}

// Stall is the time in which some of its tasks, or all that were not idle, waited.
type Stall struct {
	// SomePercent10s and FullPercent10s are the part of the last ten seconds.
	SomePercent10s float64 `json:"somePercent10s"`
	FullPercent10s float64 `json:"fullPercent10s"`
	SomeSeconds    float64 `json:"someSeconds"`
	FullSeconds    float64 `json:"fullSeconds"`
}

// Device is a GPU or another device of the machine, as its driver says.
type Device struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// BusyPercent is the part of the driver's last period in which it did anything.
	BusyPercent      *float64 `json:"busyPercent,omitempty"`
	MemoryBytes      *int64   `json:"memoryBytes,omitempty"`
	MemoryTotalBytes *int64   `json:"memoryTotalBytes,omitempty"`
	// TaskMemoryBytes is what of the memory processes of this attempt have, where the
	// driver tells of processes.
	TaskMemoryBytes *int64 `json:"taskMemoryBytes,omitempty"`
}

// Task is what a running attempt uses.
type Task struct {
	Namespace string `json:"namespace"`
	Task      string `json:"task"`
	Attempt   int    `json:"attempt"`
	Use
	// Devices are those that it holds, whole or in part.
	Devices []Device `json:"devices,omitempty"`
	// History has what it used before, the oldest first, if that was asked for.
	History []Use `json:"history,omitempty"`
}

// Node is what the machine of a node uses, all that runs on it included, and what the
// attempts of the node do.
type Node struct {
	Node string `json:"node"`
	Use
	// Processors is how many the machine has.
	Processors int `json:"processors"`
	Tasks      Sum `json:"tasks"`
	// Devices are those of the machine of which something is known.
	Devices []Device `json:"devices,omitempty"`
	History []Use    `json:"history,omitempty"`
}

// Sum is what all running attempts of a node use together, those left out of which it is
// not known.
type Sum struct {
	Running               int      `json:"running"`
	CPUMilli              *float64 `json:"cpuMilli,omitempty"`
	MemoryBytes           *int64   `json:"memoryBytes,omitempty"`
	IOReadBytesPerSecond  *float64 `json:"ioReadBytesPerSecond,omitempty"`
	IOWriteBytesPerSecond *float64 `json:"ioWriteBytesPerSecond,omitempty"`
	Processes             *int64   `json:"processes,omitempty"`
}

// SumOf adds up what attempts use.
func SumOf(tasks []Task) Sum {
	s := Sum{Running: len(tasks)}
	if len(tasks) == 0 {
		return Sum{CPUMilli: new(0.0), MemoryBytes: new(int64(0)), IOReadBytesPerSecond: new(0.0), IOWriteBytesPerSecond: new(0.0), Processes: new(int64(0))}
	}
	for _, t := range tasks {
		s.CPUMilli = plus(s.CPUMilli, t.CPUMilli)
		s.MemoryBytes = plus(s.MemoryBytes, t.MemoryBytes)
		s.IOReadBytesPerSecond = plus(s.IOReadBytesPerSecond, t.IOReadBytesPerSecond)
		s.IOWriteBytesPerSecond = plus(s.IOWriteBytesPerSecond, t.IOWriteBytesPerSecond)
		s.Processes = plus(s.Processes, t.Processes)
	}
	return s
}

// plus adds two numbers, either of which may not be known.
func plus[T int64 | float64](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(*a + *b)
}
