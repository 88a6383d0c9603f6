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

// Keeper starts a watchdog, and another one when it ends although it should not.
type Keeper struct {
	Config
	// Program is the path of this program, which is called with Subcommand.
	Program string
	// Leave reports at the end whether what runs is to be left alone, whatever becomes
	// of the session; nil is never.
	Leave func() bool
	// Ready is called once there is one.
	Ready  func()
	Logger *zap.Logger
}

const (
	// logFile has what watchdogs say, the last one's alone.
	logFile = "watchdog.log"
	// readyWait is how long one may take to take over from the last.
	readyWait = 10 * time.Second
	// againAfter is the wait before another one is started.
	againAfter = time.Second
	// endWait is how long one is waited for when the agent ends.
	endWait = 3 * time.Second
)

// Run keeps a watchdog until ctx is done. Then that ends if nothing runs that must not
// outlive the session, and stays else. Precondition: the first one cannot be started.
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

// process is a watchdog that runs.
type process struct {
	agent io.WriteCloser
	out   *bufio.Reader
	// ended yields how it ended, in words.
	ended chan string
}

// start starts one and returns when it has taken over.
func (k Keeper) start(ctx context.Context) (*process, error) {
	cmd := exec.Command(k.Program, Subcommand, k.Arg())
	// It is small, and has a session of its own: nobody's terminal ends it.
	cmd.Env = append(os.Environ(), "GOGC=20", "GOMEMLIMIT=8MiB", "GOMAXPROCS=2")
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
		// It outlives this process, as a rule: then nobody waits for this.
		state, err := cmd.Process.Wait()
		if err != nil {
			p.ended <- err.Error()
			return
		}
		p.ended <- state.String()
	}()
	return p, nil
}

// part leaves the watchdog to itself: it ends, or says that it stays.
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
