// Package measured has the JSON of what nodes measure: the usage of attempts and of machines. Agents
// write it (nodeagent/machine/usage), and commands and policies read it. docs/usage.md has the source
// of each number.
package measured

import (
	"time"
)

// Use is the usage of an attempt or a machine at a time. Unknown values are nil, and omitted from
// the JSON: that is not the same as 0. Counters start with the process or the machine.
type Use struct {
	At time.Time `json:"at"`
	// OverSeconds is the time over which the rates were measured; 0 if there are none yet.
	OverSeconds float64 `json:"overSeconds,omitempty"`

	// CPUSeconds is processor time. CPUMilli is the current rate, in thousandths of a processor.
	// ThrottledSeconds is the time for which the limit held it back.
	CPUSeconds       *float64 `json:"cpuSeconds,omitempty"`
	CPUMilli         *float64 `json:"cpuMilli,omitempty"`
	ThrottledSeconds *float64 `json:"throttledSeconds,omitempty"`

	// MemoryBytes excludes files that can be dropped at once; RSS excludes all files; Peak is the
	// highest usage, files included. Limit is its limit, or the memory of the machine.
	MemoryBytes      *int64 `json:"memoryBytes,omitempty"`
	MemoryRSSBytes   *int64 `json:"memoryRssBytes,omitempty"`
	MemoryPeakBytes  *int64 `json:"memoryPeakBytes,omitempty"`
	MemoryLimitBytes *int64 `json:"memoryLimitBytes,omitempty"`
	// OOMKills is the number of processes killed for lack of memory.
	OOMKills *int64 `json:"oomKills,omitempty"`

	// The traffic with block devices.
	IOReadBytes           *int64   `json:"ioReadBytes,omitempty"`
	IOWriteBytes          *int64   `json:"ioWriteBytes,omitempty"`
	IOReads               *int64   `json:"ioReads,omitempty"`
	IOWrites              *int64   `json:"ioWrites,omitempty"`
	IOReadBytesPerSecond  *float64 `json:"ioReadBytesPerSecond,omitempty"`
	IOWriteBytesPerSecond *float64 `json:"ioWriteBytesPerSecond,omitempty"`

	// Processes includes threads, where the kernel counts them.
	Processes *int64    `json:"processes,omitempty"`
	Pressure  *Pressure `json:"pressure,omitempty"`
}

// Pressure is how long processes waited for each resource.
type Pressure struct {
	CPU    *Stall `json:"cpu,omitempty"`
	Memory *Stall `json:"memory,omitempty"`
	IO     *Stall `json:"io,omitempty"`
}

// Stall is the time in which some processes, or all that were not idle, waited.
type Stall struct {
	// SomePercent10s and FullPercent10s are the share of the last ten seconds.
	SomePercent10s float64 `json:"somePercent10s"`
	FullPercent10s float64 `json:"fullPercent10s"`
	SomeSeconds    float64 `json:"someSeconds"`
	FullSeconds    float64 `json:"fullSeconds"`
}

// Device is the usage of a GPU or another device, according to its driver.
type Device struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// BusyPercent is the share of the driver's last period in which the device was busy.
	BusyPercent      *float64 `json:"busyPercent,omitempty"`
	MemoryBytes      *int64   `json:"memoryBytes,omitempty"`
	MemoryTotalBytes *int64   `json:"memoryTotalBytes,omitempty"`
	// TaskMemoryBytes is the part of the memory that this attempt's processes use, if the driver
	// reports processes.
	TaskMemoryBytes *int64 `json:"taskMemoryBytes,omitempty"`
}

// Task is the usage of a running attempt.
type Task struct {
	Namespace string `json:"namespace"`
	Task      string `json:"task"`
	Attempt   int    `json:"attempt"`
	Use
	// Devices are the devices that it holds, whole or in part.
	Devices []Device `json:"devices,omitempty"`
	// History is its earlier usage, the oldest first, if requested.
	History []Use `json:"history,omitempty"`
}

// Node is the usage of a node's machine by everything that runs there, and the sum of the node's
// attempts.
type Node struct {
	Node string `json:"node"`
	Use
	// Processors is the number of the machine's processors.
	Processors int `json:"processors"`
	Tasks      Sum `json:"tasks"`
	// Devices are the machine's devices with known usage.
	Devices []Device `json:"devices,omitempty"`
	History []Use    `json:"history,omitempty"`
}

// Sum is the total usage of a node's running attempts, without unknown values.
type Sum struct {
	Running               int      `json:"running"`
	CPUMilli              *float64 `json:"cpuMilli,omitempty"`
	MemoryBytes           *int64   `json:"memoryBytes,omitempty"`
	IOReadBytesPerSecond  *float64 `json:"ioReadBytesPerSecond,omitempty"`
	IOWriteBytesPerSecond *float64 `json:"ioWriteBytesPerSecond,omitempty"`
	Processes             *int64   `json:"processes,omitempty"`
}

// SumOf adds up the usage of attempts.
func SumOf(tasks []Task) Sum {
	s := Sum{Running: len(tasks)}
	if len(tasks) == 0 {
		return Sum{CPUMilli: new(0.0), MemoryBytes: new(int64(0)), IOReadBytesPerSecond: new(0.0), IOWriteBytesPerSecond: new(0.0), Processes: new(int64(0))}
	}
	for _, t := range tasks {
		s.CPUMilli = Plus(s.CPUMilli, t.CPUMilli)
		s.MemoryBytes = Plus(s.MemoryBytes, t.MemoryBytes)
		s.IOReadBytesPerSecond = Plus(s.IOReadBytesPerSecond, t.IOReadBytesPerSecond)
		s.IOWriteBytesPerSecond = Plus(s.IOWriteBytesPerSecond, t.IOWriteBytesPerSecond)
		s.Processes = Plus(s.Processes, t.Processes)
	}
	return s
}

// Plus adds two numbers, each of which may be unknown.
func Plus[T int64 | float64](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(*a + *b)
}

// Answer is what a node says of its usage: that of its running attempts, and that of its machine,
// which is nil if its agent's version does not report it.
type Answer struct {
	Tasks   []Task
	Machine *Node
}
