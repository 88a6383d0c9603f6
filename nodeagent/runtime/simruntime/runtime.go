package simruntime

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/runtime/attach"
	"github.com/escher-sched/escher/types"
)

// Runtime implements nodeagent.Runtime for one node. To restart an agent, give the new one the same
// Runtime.
type Runtime struct {
	conf Config

	mu         sync.Mutex
	containers map[string]*container
	runs       map[string]int
	signals    map[string][]syscall.Signal
	watchers   map[chan struct{}]context.CancelFunc
	down       chan struct{} // closed while the runtime is down
	// workdirs are the indexes of the archives of workdirs, by image, and blobs their other files.
	workdirs map[string][]byte
	blobs    blobs
	inputs   attach.Inputs
}

var _ nodeagent.Runtime = (*Runtime)(nil)

// container is a started container.
type container struct {
	seen      nodeagent.Observed
	behaviour Behaviour
	stop      syscall.Signal
	timer     *time.Timer
	// ended is closed when Exit is set or the container is removed.
	ended   chan struct{}
	removed bool
	// log is the path of its output, taken the number of bytes of its input, size that of its
	// terminal.
	log   string
	taken int64
	size  nodeagent.Size
}

// New returns a runtime without containers.
func New(conf Config) *Runtime {
	return &Runtime{
		conf:       conf.withDefaults(),
		containers: make(map[string]*container),
		runs:       make(map[string]int),
		signals:    make(map[string][]syscall.Signal),
		watchers:   make(map[chan struct{}]context.CancelFunc),
		down:       make(chan struct{}),
		workdirs:   make(map[string][]byte),
		blobs:      make(blobs),
		inputs:     attach.Inputs{Wait: conf.AttachWait},
	}
}

// call performs one call, with its faults.
func (r *Runtime) call(ctx context.Context, op Op, id string, do func() error) error {
	if ctx.Err() != nil {
		return types.Errorf(types.Unavailable, "%s container %s: %w", op, id, ctx.Err())
	}
	fault := r.conf.Fault(op, id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if fault == Refused || r.isDown() {
		return unavailable(op, id)
	}
	err := do()
	if fault == Unanswered {
		return unavailable(op, id)
	}
	return err
}

func (r *Runtime) isDown() bool {
	select {
	case <-r.down:
		return true
	default:
		return false
	}
}

func unavailable(op Op, id string) error {
	return types.Errorf(types.Unavailable, "%s container %s: the runtime does not answer", op, id)
}

func missing(op Op, id string) error {
	return types.Errorf(types.NotFound, "%s container %s: there is none", op, id)
}

// Start implements nodeagent.Runtime.
func (r *Runtime) Start(ctx context.Context, c nodeagent.Container) (nodeagent.Started, error) {
	var started nodeagent.Started
	err := r.call(ctx, Start, c.ID, func() error {
		if k := r.containers[c.ID]; k != nil {
			started.Image, started.Check = k.seen.Image, k.seen.Check
			return nil
		}
		if c.StopSignal != "" && unix.SignalNum(c.StopSignal) == 0 {
			return types.Errorf(types.Invalid, "stop container %s with %q: there is no such signal", c.ID, c.StopSignal)
		}
		if c.Workdir != nil && r.workdirs[c.Workdir.Image] == nil {
			return types.Errorf(types.NotFound, "find workdir %s: it is not on this node", c.Workdir.Image)
		}
		started.Image, started.Check = r.conf.Resolve(c.Image), r.conf.Check(c.Image)
		behaviour, err := r.conf.Script(c)
		if err != nil {
			return err
		}
		if c.MayStart != nil {
			if err := c.MayStart(); err != nil {
				return err
			}
		}
		if len(behaviour.Output) > 0 {
			if err := tasklog.Append(c.LogPath, behaviour.Output...); err != nil {
				return err
			}
		}
		k := &container{behaviour: behaviour, ended: make(chan struct{}), log: c.LogPath}
		k.stop = stopSignal(c.StopSignal)
		k.seen = nodeagent.Observed{
			ID: c.ID, Attempt: c.Attempt, Restart: c.Restart, Image: started.Image, Check: started.Check, Devices: c.Devices, Running: true, Started: r.conf.Now(),
		}
		r.containers[c.ID] = k
		r.runs[runOf(c.ID, c.Restart)]++
		switch {
		case behaviour.Copy && c.Stdin:
		case !behaviour.Forever:
			r.endAfter(k, behaviour.Run, nodeagent.Exit{Code: behaviour.Code, OOMKilled: behaviour.OOMKilled})
		}
		if c.Stdin {
			r.inputs.Hold(c.ID, func() error { return r.endInput(k) })
		}
		r.hint()
		return nil
	})
	return started, err
}

// runOf names one run of a process: the container's id and the number of the restart.
func runOf(id string, restart int) string {
	if restart == 0 {
		return id
	}
	return fmt.Sprintf("%s restart %d", id, restart)
}

// stopSignal returns the signal of that name, or SIGTERM.
func stopSignal(name string) syscall.Signal {
	if signal := unix.SignalNum(name); signal != 0 {
		return signal
	}
	return syscall.SIGTERM
}

// List implements nodeagent.Runtime. It sorts by id.
func (r *Runtime) List(ctx context.Context) ([]nodeagent.Observed, error) {
	var all []nodeagent.Observed
	err := r.call(ctx, List, "", func() error {
		for k := range maps.Values(r.containers) {
			all = append(all, k.copy())
		}
		slices.SortFunc(all, func(a, b nodeagent.Observed) int { return cmp.Compare(a.ID, b.ID) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (k *container) copy() nodeagent.Observed {
	seen := k.seen
	if seen.Exit != nil {
		exit := *seen.Exit
		seen.Exit = &exit
	}
	return seen
}

// Wait implements nodeagent.Runtime.
func (r *Runtime) Wait(ctx context.Context, id string) (nodeagent.Exit, error) {
	var k *container
	var down chan struct{}
	err := r.call(ctx, Wait, id, func() error {
		k, down = r.containers[id], r.down
		if k == nil {
			return missing(Wait, id)
		}
		return nil
	})
	if err != nil {
		return nodeagent.Exit{}, err
	}
	select {
	case <-k.ended:
	case <-down:
		return nodeagent.Exit{}, unavailable(Wait, id)
	case <-ctx.Done():
		return nodeagent.Exit{}, types.Errorf(types.Unavailable, "wait for container %s: %w", id, ctx.Err())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.removed {
		return nodeagent.Exit{}, missing(Wait, id)
	}
	return *k.seen.Exit, nil
}

// Signal implements nodeagent.Runtime.
func (r *Runtime) Signal(ctx context.Context, id string, signal syscall.Signal) error {
	return r.call(ctx, Signal, id, func() error {
		k := r.containers[id]
		if k == nil {
			return missing(Signal, id)
		}
		if signal == nodeagent.StopSignal {
			signal = k.stop
		}
		r.signals[id] = append(r.signals[id], signal)
		switch {
		case k.seen.Exit != nil:
		case signal == syscall.SIGKILL:
			r.end(k, nodeagent.Exit{Code: 128 + int(signal)})
		case k.behaviour.Deaf:
		case signal == k.stop, signal == syscall.SIGTERM, signal == syscall.SIGINT:
			r.endAfter(k, k.behaviour.StopAfter, nodeagent.Exit{Code: k.behaviour.StopCode})
		}
		return nil
	})
}

// Remove implements nodeagent.Runtime.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	return r.call(ctx, Remove, id, func() error {
		k := r.containers[id]
		if k == nil {
			return nil
		}
		k.removed = true
		r.inputs.Drop(id)
		r.end(k, nodeagent.Exit{Code: 128 + int(syscall.SIGKILL)})
		delete(r.containers, id)
		return nil
	})
}

// endAfter ends the process after a time; 0 means at once. The latest call counts, unless the
// process has ended.
func (r *Runtime) endAfter(k *container, after time.Duration, exit nodeagent.Exit) {
	if k.timer != nil {
		k.timer.Stop()
	}
	if after <= 0 {
		r.end(k, exit)
		return
	}
	k.timer = time.AfterFunc(after, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.end(k, exit)
	})
}

// end ends the process now if it has not ended.
func (r *Runtime) end(k *container, exit nodeagent.Exit) {
	if k.timer != nil {
		k.timer.Stop()
	}
	if k.seen.Exit == nil {
		exit.At = r.conf.Now()
		exit.CPU, exit.Memory = exit.At.Sub(k.seen.Started)*time.Duration(k.behaviour.MilliCPU)/1000, k.behaviour.Memory
		k.seen.Exit, k.seen.Running = &exit, false
		close(k.ended)
		if k.behaviour.Ended != nil {
			k.behaviour.Ended(exit.At.Sub(k.seen.Started))
		}
	}
	r.hint()
}
