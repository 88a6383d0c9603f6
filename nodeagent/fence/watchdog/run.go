//go:build linux

package watchdog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

const (
	// lockFile has the process id of a directory's watchdog, which holds its lock.
	lockFile = "watchdog.lock"
	// sayReady is what a watchdog prints once it alone guards its nodes, sayStays what it prints
	// when the agent has ended in order and containers run.
	sayReady = "ready"
	sayStays = "stays"
	// stayAfter limits the time to find out that no container runs.
	stayAfter = 300 * time.Millisecond
)

// Run is the main function of a watchdog. It guards the nodes in arg, a Config.Arg, until nothing
// is left to guard or another watchdog takes over. from is the read end of a pipe of the agent. Run
// writes to out when it is ready. By then the previous watchdog of the directory has ended, so
// there is no moment without one.
func Run(ctx context.Context, arg string, from io.Reader, out io.Writer) error {
	cfg, err := parseArg(arg)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM)
	defer stop()
	// The reader of its output may end before it does.
	signal.Ignore(unix.SIGPIPE, unix.SIGHUP, unix.SIGINT)
	logger := newSays(log.New(os.Stderr, "", log.LstdFlags|log.LUTC|log.Lmicroseconds))
	defer logger.close()
	agent := newAgent(from)
	group, inner := errgroup.WithContext(ctx)
	books := newBooks(BootID(), logger)
	defer books.close()
	guards := make([]*guard, len(cfg.Nodes))
	for i, n := range cfg.Nodes {
		if guards[i], err = newGuard(n, books, logger); err != nil {
			return err
		}
	}
	harden(ctx, guards, logger)
	for _, g := range guards {
		group.Go(func() error { return g.run(inner, agent) })
	}
	lock, err := takeOver(ctx, cfg.Dir)
	if err != nil {
		return errors.Join(err, endOf(group, stop))
	}
	defer lock.Close()
	fmt.Fprintln(out, sayReady)
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }()
	select {
	case err := <-ended:
		return ignoreCancelled(err)
	case <-agent.left:
		return endOf(group, stop)
	case <-agent.gone:
	}
	select {
	case err := <-ended:
		return ignoreCancelled(err)
	case <-time.After(stayAfter):
		fmt.Fprintln(out, sayStays) // If the agent is dead, this has no reader.
	}
	return ignoreCancelled(<-ended)
}

// newGuard makes the guard of a node.
func newGuard(n Node, b *books, logger *says) (*guard, error) {
	p, err := OpenPage(n.StateDir)
	if err != nil {
		return nil, err
	}
	mem, err := p.view()
	if err := errors.Join(err, p.Close()); err != nil {
		return nil, err
	}
	clock, err := newAlarm()
	if err != nil {
		return nil, err
	}
	// A full disk has no room for a directory later. Without one the marks say what is wrong.
	_ = os.MkdirAll(filepath.Join(n.StateDir, EndingDir), 0o700)
	return &guard{Node: n, clock: clock, bootID: b.bootID, page: mem, log: logger, books: b}, nil
}

// endOf ends the guards.
func endOf(group *errgroup.Group, stop func()) error {
	stop()
	return ignoreCancelled(group.Wait())
}

func ignoreCancelled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil // Another watchdog has taken over.
	}
	return err
}

// takeOver ends the previous watchdog of a directory and takes its lock. It kills one that does not
// end because it is frozen. The lock lasts until it is closed.
func takeOver(ctx context.Context, dir string) (lock io.Closer, err error) {
	const (
		every    = 10 * time.Millisecond
		patience = 2 * time.Second
	)
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, types.Errorf(types.Precondition, "lock the watchdog: %w", err)
	}
	fd := int(file.Fd())
	for began, with := time.Now(), unix.SIGTERM; ; {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, types.Errorf(types.Precondition, "lock the watchdog: %w", err)
		}
		if time.Since(began) > patience {
			with = unix.SIGKILL
		}
		if pid := holder(file); pid > 1 {
			_ = unix.Kill(pid, with) // It may just have ended.
		}
		if err := supervise.Pause(ctx, every); err != nil {
			return nil, err
		}
	}
	if err = file.Truncate(0); err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	if err != nil {
		return nil, types.Errorf(types.Precondition, "lock the watchdog: %w", err)
	}
	return file, nil
}

// holder returns the process id of the lock's holder; 0 means unknown.
func holder(file *os.File) int {
	b := make([]byte, 16)
	n, _ := file.ReadAt(b, 0) // The file is shorter.
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return 0
	}
	return pid
}
