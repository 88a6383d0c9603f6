package usage

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

// driver reports the usage of devices.
type driver struct {
	used []devices.Use

	mu    sync.Mutex
	err   error
	calls int
}

func (d *driver) Use(context.Context) ([]devices.Use, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if d.err != nil {
		return nil, d.err
	}
	return d.used, nil
}

func (d *driver) asked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

func (d *driver) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// metering runs f with a running meter. f can change the driver between its calls.
func metering(t *testing.T, f func(t *testing.T, d *driver, m *meter)) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{used: []devices.Use{
			{ID: "gpu-1", Percent: 37, MemoryUsed: 5 << 30, MemoryTotal: 80 << 30, Processes: []devices.Process{
				{PID: 4711, MemoryBytes: 1 << 30}, {PID: 4711, MemoryBytes: 1 << 20}, {PID: 4712, MemoryBytes: 2 << 30}, {PID: 9999, MemoryBytes: 3 << 30},
			}},
			{ID: "gpu-0", Percent: devices.Unknown, MemoryUsed: devices.Unknown, MemoryTotal: 80 << 30, Processes: []devices.Process{
				{PID: 4711, MemoryBytes: devices.Unknown},
			}},
		}}
		m := newMeter(d.Use, "testdata/proc", zap.NewNop())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.run(ctx) }()
		f(t, d, m)
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestMeter(t *testing.T) {
	metering(t, func(t *testing.T, _ *driver, m *meter) {
		pass(time.Second)
		read := time.Now().Add(-time.Second)
		busy := measured.Device{ID: "gpu-1", At: read, BusyPercent: new(37.0), MemoryBytes: new(int64(5 << 30)), MemoryTotalBytes: new(int64(80 << 30))}
		silent := measured.Device{ID: "gpu-0", At: read, MemoryTotalBytes: new(int64(80 << 30))}
		if diff := cmp.Diff([]measured.Device{silent, busy}, m.all()); diff != "" {
			t.Errorf("of the machine, -want +got:\n%s", diff)
		}
		for container, want := range map[string]*int64{
			"web-1-0123": new(int64(1<<30 + 1<<20)), // by a directory of v1
			"job-1-4567": new(int64(2 << 30)),       // by a scope of systemd
			"ob-1-4567":  nil, "web-1": nil,
		} {
			held := busy
			held.TaskMemoryBytes = want
			if diff := cmp.Diff([]measured.Device{held}, m.ofTask(container, []string{"gpu-1", "another"})); diff != "" {
				t.Errorf("of container %q, -want +got:\n%s", container, diff)
			}
		}
		if got := m.ofTask("web-1-0123", []string{"gpu-0"}); got[0].TaskMemoryBytes != nil {
			t.Errorf("%+v, want that its memory is not known", got)
		}
		if got := m.ofTask("web-1-0123", nil); got != nil {
			t.Errorf("%+v of one that holds none", got)
		}
	})
}

// TestMeterIsLazy tests that drivers are queried rarely, except during user queries.
func TestMeterIsLazy(t *testing.T) {
	metering(t, func(t *testing.T, d *driver, m *meter) {
		pass(10 * time.Minute)
		if idle := d.asked(); idle > 11 {
			t.Errorf("asked %d times in ten minutes without a reader", idle)
		}
		before := d.asked()
		for range 60 {
			m.want()
			pass(time.Second)
		}
		if n := d.asked() - before; n < 10 || n > 15 {
			t.Errorf("asked %d times in a minute with a reader", n)
		}
	})
}

// TestMeterSilent tests a driver that no longer answers.
func TestMeterSilent(t *testing.T) {
	metering(t, func(t *testing.T, d *driver, m *meter) {
		pass(time.Second)
		d.fail(types.Errorf(types.Unavailable, "it does not answer"))
		pass(2 * time.Minute)
		if len(m.all()) != 2 {
			t.Error("what was known is not known any more")
		}
		pass(2 * time.Minute)
		if got := m.all(); got != nil || m.ofTask("web-1-0123", []string{"gpu-1"}) != nil {
			t.Errorf("%+v is known after minutes", got)
		}
	})
}
