package devices

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/escher-sched/escher/nodeagent/bounded"
	"github.com/escher-sched/escher/types"
)

const (
	// maxOutput limits the output of nvidia-smi: sixteen GPUs with all their clocks take a
	// megabyte.
	maxOutput = 16 << 20
	// afterKill is how long to wait for a killed process. One that hangs in the driver ends when
	// the driver lets go of it, which may be never.
	afterKill = time.Second
)

// smi runs nvidia-smi, one process at a time.
type smi struct {
	// path is the program; "" means the one in PATH, which may come and go.
	path    string
	timeout time.Duration
	now     func() time.Time

	mu sync.Mutex
	// stuck is closed when a process that did not end after its kill has ended; nil if there is
	// none.
	stuck <-chan struct{}
	// last is the last answer of query, at the time at.
	last string
	at   time.Time
}

// answer is the output of nvidia-smi and its exit code.
type answer struct {
	text string
	code int
}

// query returns the output of nvidia-smi -q -x. It caches the answer for a second.
func (s *smi) query(ctx context.Context) (answer, error) {
	const fresh = time.Second
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); s.last != "" && now.Sub(s.at) < fresh && !now.Before(s.at) {
		return answer{text: s.last}, nil
	}
	a, err := s.run(ctx, "-q", "-x")
	if s.last = ""; err == nil && a.code == 0 {
		s.last, s.at = a.text, s.now()
	}
	return a, err
}

// ask returns the output of nvidia-smi with args.
func (s *smi) ask(ctx context.Context, args ...string) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run(ctx, args...)
}

// run runs nvidia-smi, and kills it and its child processes after the timeout. Unavailable: it does
// not answer. The caller holds s.mu.
func (s *smi) run(ctx context.Context, args ...string) (answer, error) {
	if s.stuck != nil {
		select {
		case <-s.stuck:
			s.stuck = nil
		default:
			return answer{}, types.Errorf(types.Unavailable, "nvidia-smi does not answer: one that was killed hangs in the driver still")
		}
	}
	path, err := exec.LookPath(cmp.Or(s.path, "nvidia-smi"))
	if err != nil {
		return answer{}, types.Errorf(types.Unavailable, "run nvidia-smi: %w: memory, links and health of the GPUs are not known", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	cmd.WaitDelay = afterKill
	out := &limited{most: maxOutput, full: cancel}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return answer{}, types.Errorf(types.Unavailable, "run nvidia-smi: %w", err)
	}
	ended := make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		failed = cmd.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // It may just have ended.
		s.reap(ended)
		return answer{}, types.Errorf(types.Unavailable, "nvidia-smi does not answer within %s", s.timeout)
	}
	var exit *exec.ExitError
	if failed != nil && (!errors.As(failed, &exit) || exit.ExitCode() < 0) {
		return answer{}, types.Errorf(types.Unavailable, "run nvidia-smi: %w", failed)
	}
	return answer{text: out.buf.String(), code: cmd.ProcessState.ExitCode()}, nil
}

// reap waits a limited time for a killed process.
func (s *smi) reap(ended <-chan struct{}) {
	if !bounded.Wait(ended, 2*afterKill) {
		s.stuck = ended
	}
}

// complaint returns the first line of the output.
func (a answer) complaint() string {
	line, _, _ := strings.Cut(strings.TrimSpace(a.text), "\n")
	const most = 200
	return strings.Join(strings.Fields(line[:min(len(line), most)]), " ")
}

// limited is a buffer with a limit. It calls full when a write would exceed it.
type limited struct {
	// buf is not embedded: its ReadFrom has no limit.
	buf  bytes.Buffer
	most int
	full func()
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.buf.Len()+len(p) > l.most {
		l.full()
		return 0, types.Errorf(types.Unavailable, "more than %d bytes", l.most)
	}
	return l.buf.Write(p)
}
