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
	// lockFile has the number of the watchdog of a directory, which has it locked.
	lockFile = "watchdog.lock"
	// sayReady is what it prints once it looks after its nodes alone, sayStays when the
	// agent has ended in order and something runs.
	sayReady = "ready"
	sayStays = "stays"
	// stayAfter is how long one takes at most to see that nothing runs.
	stayAfter = 300 * time.Millisecond
)

// Run is a watchdog: it looks after the nodes that arg, a Config.Arg, names until there is
// nothing to look after or another one takes over. agent is the end of a pipe of the
// agent's; to out it says when it is ready, after which the last watchdog of the directory
// has ended: there is no moment without one.
func Run(ctx context.Context, arg string, from io.Reader, out io.Writer) error {
	cfg, err := parseArg(arg)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM)
	defer stop()
	// Whoever reads what it says may end before it does.
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
		fmt.Fprintln(out, sayStays) // If the agent is dead, nobody reads it.
	}
	return ignoreCancelled(<-ended)
}

// newGuard prepares to look after a node.
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
	return &guard{Node: n, clock: clock, bootID: b.bootID, page: mem, log: logger, books: b}, nil
}

// endOf ends the guards.
func endOf(group *errgroup.Group, stop func()) error {
	stop()
	return ignoreCancelled(group.Wait())
}

func ignoreCancelled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil // Another one has taken over.
	}
	return err
}

// takeOver ends the last watchdog of a directory and takes its lock. One that does not
// end, as it is frozen, is killed. The lock lasts until it is closed.
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

// holder returns who has the lock, 0 if that is not known.
func holder(file *os.File) int {
	b := make([]byte, 16)
	n, _ := file.ReadAt(b, 0) // It ends before.
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return 0
	}
	return pid
}
