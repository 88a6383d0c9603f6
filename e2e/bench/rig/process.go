package rig

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Process is a part of a cluster in its own process.
type Process struct {
	// name is unique in the cluster.
	name string
	cmd  *exec.Cmd
	proc procfs.Proc

	// asking is held from an order until its reply.
	asking  sync.Mutex
	in      io.WriteCloser
	replies chan reply
	ended   chan struct{}
	said    Tail
	// ordered reports whether it was told to end; mu guards it.
	mu      sync.Mutex
	ordered bool
}

// unheard bounds the replies that may wait for a reader: more than there are orders without one.
const unheard = 64

// Launch starts a part and returns at once: see Ready.
func Launch(cfg Config, role, name string, rc RoleConfig) (*Process, error) {
	p := &Process{name: name, replies: make(chan reply, unheard), ended: make(chan struct{})}
	// In its own process group, so that an interrupt does not reach it before its cluster was
	// examined.
	p.cmd = exec.Command(cfg.Self, RoleCommand, role)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = &p.said
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, types.Errorf(types.Precondition, "start %s: run %s: %w", name, cfg.Self, err)
	}
	go p.listen(out)
	if err := json.NewEncoder(p.in).Encode(rc); err != nil {
		return nil, p.why(err)
	}
	if p.proc, err = procfs.NewProc(p.cmd.Process.Pid); err != nil {
		return nil, p.why(err)
	}
	return p, nil
}

// listen passes on its replies until it ends.
func (p *Process) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var r reply
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			p.replies <- r
		}
	}
	_ = p.cmd.Wait() // its output says why it ended
	close(p.ended)
}

// Ready waits until it works, and returns its endpoint, if it has one.
func (p *Process) Ready(ctx context.Context) (string, error) {
	r, err := p.reply(ctx)
	return r.Endpoint, err
}

// reply waits for its next reply.
func (p *Process) reply(ctx context.Context) (reply, error) {
	select {
	case r := <-p.replies:
		if r.Error != "" {
			return r, types.Errorf(types.Internal, "%s: %s", p.name, r.Error)
		}
		return r, nil
	case <-p.ended:
		return reply{}, p.why(nil)
	case <-ctx.Done():
		return reply{}, context.Cause(ctx)
	}
}

// ask sends an order and returns the reply.
func (p *Process) ask(ctx context.Context, o order) (reply, error) {
	p.asking.Lock()
	defer p.asking.Unlock()
	if err := json.NewEncoder(p.in).Encode(o); err != nil {
		return reply{}, p.why(err)
	}
	for {
		// The ready reply may not have been read before.
		if r, err := p.reply(ctx); err != nil || !r.Ready {
			return r, err
		}
	}
}

// Stats returns its counters.
func (p *Process) Stats(ctx context.Context) (map[string]float64, error) {
	r, err := p.ask(ctx, order{Do: doStats})
	return r.Stats, err
}

// why explains the end of the process.
func (p *Process) why(err error) error {
	if text := p.said.String(); text != "" {
		return types.Errorf(types.Internal, "%s ended: %s", p.name, text)
	}
	return types.Errorf(types.Internal, "%s ended: %v", p.name, cmp.Or(err, io.ErrUnexpectedEOF))
}

// stop ends it in order and waits for its end.
func (p *Process) stop() {
	p.end()
	_ = p.in.Close() // it may have ended
	select {
	case <-p.ended:
	case <-time.After(StopWait):
		p.Kill()
	}
}

// StopWait is how long a part may take to end.
const StopWait = 20 * time.Second

// Kill ends it like a machine failure.
func (p *Process) Kill() {
	p.end()
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

func (p *Process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ordered = true
}

// lost reports whether it ended without being told to.
func (p *Process) lost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ordered
}

// cpu returns its CPU time so far.
func (p *Process) cpu() (time.Duration, error) {
	return CPUOf(p.cmd.Process.Pid)
}

// CPUOf returns the CPU time of a process, to the nanosecond, from its clock. The kernel derives
// the number of the clock from the process id. 0 means this process.
func CPUOf(pid int) (time.Duration, error) {
	const ofScheduler = 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|ofScheduler), &at); err != nil {
		return 0, types.Errorf(types.Internal, "read the processor time of process %d: %w", pid, err)
	}
	return time.Duration(at.Nano()), nil
}

// memory returns its resident memory and its peak, in bytes.
func (p *Process) memory() (now, most int64, err error) {
	s, err := p.proc.NewStatus()
	if err != nil {
		return 0, 0, types.Errorf(types.Internal, "look at %s: %w", p.name, err)
	}
	return int64(s.VmRSS), int64(s.VmHWM), nil
}

// Tail keeps the end of what was written.
type Tail struct {
	mu  sync.Mutex
	buf []byte
}

// maxTail is the size of that end.
const maxTail = 4 << 10

// Write implements io.Writer.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	t.buf = t.buf[max(0, len(t.buf)-maxTail):]
	return len(b), nil
}

// String returns that end.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}

// Sleep waits, or returns the cause for which ctx is done.
func Sleep(ctx context.Context, d time.Duration) error {
	if supervise.Pause(ctx, d) != nil {
		return context.Cause(ctx)
	}
	return nil
}
