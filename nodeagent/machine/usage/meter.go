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
)

const (
	// devicesEvery is how often devices are asked: nvidia-smi takes a second of a
	// processor for eight of them. While somebody looks it is devicesSoon, until nobody
	// has for as long as lookedAt.
	devicesEvery = time.Minute
	devicesSoon  = 5 * time.Second
	lookedAt     = 30 * time.Second
	// devicesOld is when what was said counts no more.
	devicesOld = 3 * devicesEvery
)

// meter asks the drivers of devices how much these are used.
type meter struct {
	use    func(context.Context) ([]devices.Use, error)
	proc   string
	log    *zap.Logger
	wanted chan struct{}

	mu     sync.Mutex
	asked  time.Time // when somebody looked last
	at     time.Time
	used   []devices.Use
	owners map[int]string // the cgroups of processes on devices
	silent bool           // that they do not answer was said
}

func newMeter(use func(context.Context) ([]devices.Use, error), proc string, log *zap.Logger) *meter {
	return &meter{use: use, proc: proc, log: log, wanted: make(chan struct{}, 1)}
}

// run asks until ctx is done.
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

// ask asks once.
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

// cgroups returns the cgroups of the processes on devices; those that have ended, or are
// of another machine, have none.
func (m *meter) cgroups(used []devices.Use) map[int]string {
	owners := make(map[int]string)
	for _, u := range used {
		for _, p := range u.Processes {
			// What cannot be read belongs to nobody that is known.
			if text, err := os.ReadFile(filepath.Join(m.proc, strconv.Itoa(p.PID), "cgroup")); err == nil {
				owners[p.PID] = string(text)
			}
		}
	}
	return owners
}

// want says that somebody looks.
func (m *meter) want() {
	m.mu.Lock()
	m.asked = time.Now()
	m.mu.Unlock()
	select {
	case m.wanted <- struct{}{}:
	default: // It is said already.
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

// age is how old the last answer is.
func (m *meter) age() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.at)
}

// all returns what is known of all devices, sorted by id.
func (m *meter) all() []Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) > devicesOld {
		return nil
	}
	var all []Device
	for _, u := range m.used {
		all = append(all, m.device(u))
	}
	slices.SortFunc(all, func(a, b Device) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// ofTask returns what is known of the devices with those ids, and how much of them the
// processes of a container have.
func (m *meter) ofTask(container string, ids []string) []Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) > devicesOld {
		return nil
	}
	var all []Device
	for _, u := range m.used {
		if slices.Contains(ids, u.ID) {
			d := m.device(u)
			d.TaskMemoryBytes = m.memoryOf(container, u)
			all = append(all, d)
		}
	}
	return all
}

// memoryOf returns how much of a device the processes of a container have; nil if that is
// told of none of them.
func (m *meter) memoryOf(container string, u devices.Use) *int64 {
	var sum *int64
	for _, p := range u.Processes {
		if inCgroup(m.owners[p.PID], container) {
			sum = plus(sum, known(p.MemoryBytes))
		}
	}
	return sum
}

// inCgroup reports whether a file such as /proc/1/cgroup names a container in any of its
// lines, as a directory or, by systemd, as a scope.
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

// device is what is known of one.
func (m *meter) device(u devices.Use) Device {
	d := Device{ID: u.ID, At: m.at, MemoryBytes: known(u.MemoryUsed), MemoryTotalBytes: known(u.MemoryTotal)}
	if u.Percent != devices.Unknown {
		d.BusyPercent = new(float64(u.Percent))
	}
	return d
}

// known is nil for what a driver does not tell.
func known(n int64) *int64 {
	if n == devices.Unknown {
		return nil
	}
	return &n
}
