package usage

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/types/measured"
)

const (
	// devicesEvery is the interval of device queries: nvidia-smi takes a second of a processor for
	// eight of them. It is devicesSoon while users query the usage, until none has for lookedAt.
	devicesEvery = time.Minute
	devicesSoon  = 5 * time.Second
	lookedAt     = 30 * time.Second
	// devicesOld is the age at which an answer is no longer used.
	devicesOld = 3 * devicesEvery
)

// meter queries drivers for the usage of devices.
type meter struct {
	use    func(context.Context) ([]devices.Use, error)
	proc   string
	log    *zap.Logger
	wanted chan struct{}

	mu     sync.Mutex
	asked  time.Time // the last user query
	at     time.Time
	used   []devices.Use
	owners map[int]string // the cgroups of processes on devices
	silent bool           // whether a missing answer was logged
}

func newMeter(use func(context.Context) ([]devices.Use, error), proc string, log *zap.Logger) *meter {
	return &meter{use: use, proc: proc, log: log, wanted: make(chan struct{}, 1)}
}

// run queries until ctx is done.
func (m *meter) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-m.wanted:
			if m.age() < devicesSoon {
				continue
			}
		}
		m.ask(ctx)
		timer.Reset(m.pause())
	}
}

// ask queries once.
func (m *meter) ask(ctx context.Context) {
	used, err := m.use(ctx)
	if ctx.Err() != nil {
		return
	}
	owners := m.cgroups(used)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && !m.silent {
		m.log.Warn("devices do not say how much they are used", zap.Error(err))
	}
	m.silent = err != nil
	if err == nil || len(used) > 0 { // Some drivers may answer and others not.
		m.at, m.used, m.owners = time.Now(), used, owners
	}
}

// cgroups returns the cgroups of the processes on devices. Processes that have ended, or are of
// another machine, have none.
func (m *meter) cgroups(used []devices.Use) map[int]string {
	owners := make(map[int]string)
	for _, u := range used {
		for _, p := range u.Processes {
			// An unreadable process belongs to no known container.
			if text, err := os.ReadFile(filepath.Join(m.proc, strconv.Itoa(p.PID), "cgroup")); err == nil {
				owners[p.PID] = string(text)
			}
		}
	}
	return owners
}

// want records a user query.
func (m *meter) want() {
	m.mu.Lock()
	m.asked = time.Now()
	m.mu.Unlock()
	select {
	case m.wanted <- struct{}{}:
	default: // A request is pending.
	}
}

func (m *meter) pause() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.asked) < lookedAt {
		return devicesSoon
	}
	return devicesEvery
}

// age returns the age of the last answer.
func (m *meter) age() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.at)
}

// all returns the usage of all devices, sorted by id.
func (m *meter) all() []measured.Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) > devicesOld {
		return nil
	}
	var all []measured.Device
	for _, u := range m.used {
		all = append(all, m.device(u))
	}
	slices.SortFunc(all, func(a, b measured.Device) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// ofTask returns the usage of the devices with those ids, and the memory on them that a container's
// processes use.
func (m *meter) ofTask(container string, ids []string) []measured.Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) > devicesOld {
		return nil
	}
	var all []measured.Device
	for _, u := range m.used {
		if slices.Contains(ids, u.ID) {
			d := m.device(u)
			d.TaskMemoryBytes = m.memoryOf(container, u)
			all = append(all, d)
		}
	}
	return all
}

// memoryOf returns the memory of a device that a container's processes use; nil if it is known for
// none of them.
func (m *meter) memoryOf(container string, u devices.Use) *int64 {
	var sum *int64
	for _, p := range u.Processes {
		if inCgroup(m.owners[p.PID], container) {
			sum = measured.Plus(sum, known(p.MemoryBytes))
		}
	}
	return sum
}

// inCgroup reports whether a file such as /proc/1/cgroup names a container in one of its lines, as
// a directory or, with systemd, as a scope.
func inCgroup(text, container string) bool {
	for line := range strings.Lines(text) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if part == container || strings.HasSuffix(part, "-"+container+".scope") {
				return true
			}
		}
	}
	return false
}

// device returns the usage of a device.
func (m *meter) device(u devices.Use) measured.Device {
	d := measured.Device{ID: u.ID, At: m.at, MemoryBytes: known(u.MemoryUsed), MemoryTotalBytes: known(u.MemoryTotal)}
	if u.Percent != devices.Unknown {
		d.BusyPercent = new(float64(u.Percent))
	}
	return d
}

// known returns nil for a number that a driver does not report.
func known(n int64) *int64 {
	if n == devices.Unknown {
		return nil
	}
	return &n
}
