package bench

import (
	"bufio"
	"bytes"
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

// process is a part of a cluster in its own process.
type process struct {
	// name is unique in the cluster.
	name string
	cmd  *exec.Cmd
	proc procfs.Proc

	// asking is held from an order until its reply.
	asking  sync.Mutex
	in      io.WriteCloser
	replies chan reply
	ended   chan struct{}
	said    tail
	// ordered reports whether it was told to end; mu guards it.
	mu      sync.Mutex
	ordered bool
}

// unheard bounds the replies that may wait for a reader: more than there are orders without one.
const unheard = 64

// launch starts a part and returns at once: see ready.
func launch(cfg Config, role, name string, rc roleConfig) (*process, error) {
	p := &process{name: name, replies: make(chan reply, unheard), ended: make(chan struct{})}
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
func (p *process) listen(out io.Reader) {
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

// ready waits until it works, and returns its endpoint, if it has one.
func (p *process) ready(ctx context.Context) (string, error) {
	r, err := p.reply(ctx)
	return r.Endpoint, err
}

// reply waits for its next reply.
func (p *process) reply(ctx context.Context) (reply, error) {
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
func (p *process) ask(ctx context.Context, o order) (reply, error) {
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

// stats returns its counters.
func (p *process) stats(ctx context.Context) (map[string]float64, error) {
	r, err := p.ask(ctx, order{Do: doStats})
	return r.Stats, err
}

// why explains the end of the process.
func (p *process) why(err error) error {
	if text := p.said.String(); text != "" {
		return types.Errorf(types.Internal, "%s ended: %s", p.name, text)
	}
	return types.Errorf(types.Internal, "%s ended: %v", p.name, cmpErr(err, io.ErrUnexpectedEOF))
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// stop ends it in order and waits for its end.
func (p *process) stop() {
	p.end()
	_ = p.in.Close() // it may have ended
	select {
	case <-p.ended:
	case <-time.After(stopWait):
		p.kill()
	}
}

// stopWait is how long a part may take to end.
const stopWait = 20 * time.Second

// kill ends it like a machine failure.
func (p *process) kill() {
	p.end()
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

func (p *process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ordered = true
}

// lost reports whether it ended without being told to.
func (p *process) lost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ordered
}

// cpu returns its CPU time so far.
func (p *process) cpu() (time.Duration, error) {
	return cpuOf(p.cmd.Process.Pid)
}

// cpuOf returns the CPU time of a process, to the nanosecond, from its clock. The kernel derives
// the number of the clock from the process id. 0 means this process.
func cpuOf(pid int) (time.Duration, error) {
	const ofScheduler = 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|ofScheduler), &at); err != nil {
		return 0, types.Errorf(types.Internal, "read the processor time of process %d: %w", pid, err)
	}
	return time.Duration(at.Nano()), nil
}

// memory returns its resident memory and its peak, in bytes.
func (p *process) memory() (now, most int64, err error) {
	s, err := p.proc.NewStatus()
	if err != nil {
		return 0, 0, types.Errorf(types.Internal, "look at %s: %w", p.name, err)
	}
	return int64(s.VmRSS), int64(s.VmHWM), nil
}

// tail keeps the end of what was written.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// maxTail is the size of that end.
const maxTail = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	t.buf = t.buf[max(0, len(t.buf)-maxTail):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}

// sleep waits, or returns the cause for which ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	if supervise.Pause(ctx, d) != nil {
		return context.Cause(ctx)
	}
	return nil
}
