//go:build linux

package watchdog

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

// clock is the time since the machine booted.
type clock interface {
	now() time.Duration
	// sleep waits until a time, or until wake yields. It returns an error if ctx is done.
	sleep(ctx context.Context, until time.Duration, wake <-chan struct{}) error
}

// alarm is a clock with a kernel timer. Go's timers stop while the machine is suspended; this one
// fires at once on resume.
type alarm struct {
	fd    int
	timer *os.File
	rings chan struct{}
}

// newAlarm makes an alarm. It lasts until the process ends.
func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, types.Errorf(types.Precondition, "make a timer of the boot clock: %w", err)
	}
	a := &alarm{fd: fd, timer: os.NewFile(uintptr(fd), "timerfd"), rings: make(chan struct{}, 1)}
	go a.listen()
	return a, nil
}

func (a *alarm) listen() {
	for b := make([]byte, 8); ; {
		if _, err := a.timer.Read(b); err != nil {
			return // It was closed.
		}
		select {
		case a.rings <- struct{}{}:
		default: // A tick is pending.
		}
	}
}

func (a *alarm) now() time.Duration { return BootTime() }

func (a *alarm) sleep(ctx context.Context, until time.Duration, wake <-chan struct{}) error {
	// 0 would stop the timer.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, int64(until)))}
	if err := unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		return types.Errorf(types.Internal, "set a timer of the boot clock: %w", err)
	}
	select {
	case <-a.rings:
	case <-wake:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// BootTime reads CLOCK_BOOTTIME, which goes on while the machine is suspended.
func BootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// It exists since Linux 2.6.39. Without it no deadline can be kept.
		panic(fmt.Sprintf("read the boot clock: %v", err))
	}
	return time.Duration(ts.Nano())
}

// BootID returns the kernel's id of this boot; "" if it has none. Then times of an earlier process
// are not trusted.
func BootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
