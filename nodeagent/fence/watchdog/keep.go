//go:build linux

package watchdog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/bounded"
	"github.com/escher-sched/escher/types"
)

// Keeper starts a watchdog, and a new one when it ends unexpectedly.
type Keeper struct {
	Config
	// Program is the path of this program. It is called with Subcommand.
	Program string
	// Leave reports at the end whether the watchdog must leave running containers alone, whatever
	// becomes of the session; nil means false.
	Leave func() bool
	// Ready is called once a watchdog runs.
	Ready  func()
	Logger *zap.Logger
}

const (
	// logFile is the log of the current watchdog.
	logFile = "watchdog.log"
	// readyWait limits how long a watchdog may take to take over from the previous one.
	readyWait = 10 * time.Second
	// againAfter is the wait before another one is started.
	againAfter = time.Second
	// endWait limits the wait for the watchdog when the agent ends.
	endWait = 3 * time.Second
)

// Run keeps a watchdog running until ctx is done. Then the watchdog ends, unless containers run
// that must not outlive the session. Precondition: the first watchdog cannot be started.
func (k Keeper) Run(ctx context.Context) error {
	p, err := k.start(ctx)
	if err != nil {
		return err
	}
	k.Ready()
	for {
		select {
		case <-ctx.Done():
			p.part(k.Leave != nil && k.Leave())
			return ctx.Err()
		case how := <-p.ended:
			k.Logger.Error("the watchdog ended: nothing guards the deadline of the session but the agent", zap.String("reason", how))
		}
		for p = nil; p == nil; {
			if err := supervise.Pause(ctx, againAfter); err != nil {
				return err
			}
			if p, err = k.start(ctx); err != nil {
				k.Logger.Error("there is no watchdog", zap.Error(err))
			}
		}
		k.Logger.Info("there is a watchdog again")
	}
}

// process is a running watchdog.
type process struct {
	agent io.WriteCloser
	out   *bufio.Reader
	// ended yields how the process ended, in words.
	ended chan string
}

// Environ returns the environment of a watchdog, which keeps it small.
//
// A limit of the memory (GOMEMLIMIT) would be dangerous: the runtime alone takes about 8 MiB, and
// above the limit every allocation collects garbage. On a busy machine, kills were half a minute late.
func Environ() []string {
	return append(os.Environ(), "GOGC=20", "GOMEMLIMIT=off", "GOMAXPROCS=2")
}

// start starts a watchdog and returns when it has taken over.
func (k Keeper) start(ctx context.Context) (*process, error) {
	cmd := exec.Command(k.Program, Subcommand, k.Arg())
	// It has its own session, so that no terminal ends it.
	cmd.Env = Environ()
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	says, err := os.OpenFile(filepath.Join(k.Dir, logFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, types.Errorf(types.Precondition, "start the watchdog: %w", err)
	}
	defer says.Close()
	cmd.Stderr = says
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, types.Errorf(types.Precondition, "start the watchdog: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, types.Errorf(types.Precondition, "start the watchdog: %w", err)
	}
	p := &process{agent: in, out: bufio.NewReader(out), ended: make(chan string, 1)}
	ready := make(chan error, 1)
	go func() {
		line, err := p.out.ReadString('\n')
		if err == nil && line != sayReady+"\n" {
			err = fmt.Errorf("it says %q", line)
		}
		ready <- err
	}()
	timer := time.NewTimer(readyWait)
	defer timer.Stop()
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("it is not ready after %s", readyWait)
	}
	if err != nil {
		_ = cmd.Process.Kill() // It may have ended.
		_ = cmd.Wait()         // That is why.
		return nil, types.Errorf(types.Precondition, "start the watchdog: %w: %s says more", err, says.Name())
	}
	go func() {
		// It usually outlives this process: then this goroutine never returns.
		state, err := cmd.Process.Wait()
		if err != nil {
			p.ended <- err.Error()
			return
		}
		p.ended <- state.String()
	}()
	return p, nil
}

// part ends the connection to the watchdog, which ends, or says that it stays.
func (p *process) part(leave bool) {
	say := sayOrderly
	if leave {
		say = sayLeave
	}
	_, _ = io.WriteString(p.agent, say+"\n") // It may have ended.
	_ = p.agent.Close()
	answer, gaveUp := make(chan struct{}), make(chan struct{})
	defer close(gaveUp)
	go func() {
		defer close(answer)
		if _, err := p.out.ReadString('\n'); err == nil {
			return // It stays.
		}
		select {
		case <-p.ended: // The pipe ends with it.
		case <-gaveUp:
		}
	}()
	bounded.Wait(answer, endWait)
}
