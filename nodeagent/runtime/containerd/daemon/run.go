package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Run keeps a private daemon running until ctx is done: it restarts an ended daemon, and containers
// run on meanwhile. At the end it stops the daemon unless Config.Keep is set. Containers run on in
// either case, and an Ensure of the same directory finds them again. With the machine's daemon, Run
// only waits.
func (d *Daemon) Run(ctx context.Context) error {
	if !d.private {
		<-ctx.Done()
		return nil
	}
	pauses := supervise.NewSchedule()
	for {
		pid, err := d.PID()
		if err == nil {
			pauses.Reset()
			err = d.follow(ctx, pid)
		}
		if ctx.Err() != nil {
			return err
		}
		d.conf.Logger.Warn("containerd ended, starting it again", zap.String("address", d.address), zap.Error(err))
		if err := d.start(ctx); err != nil {
			d.conf.Logger.Error("containerd does not start", zap.Error(err))
			_ = pauses.Pause(ctx, 0) // ctx is checked next
		}
		if ctx.Err() != nil {
			return d.stopNow()
		}
	}
}

// stopNow stops the daemon if it runs, unless Config.Keep is set.
func (d *Daemon) stopNow() error {
	pid, err := d.PID()
	if err != nil || d.conf.Keep {
		return nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	return d.stop(fd, pid)
}

// follow waits for the end of the process. It stops it when ctx is done, without Config.Keep.
func (d *Daemon) follow(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return types.Errorf(types.Internal, "follow containerd, process %d: %w", pid, err)
	}
	process, err := awaitable(fd)
	if err != nil {
		return types.Errorf(types.Internal, "follow containerd, process %d: %w", pid, err)
	}
	defer process.Close()
	if err := awaitEnd(ctx, process); err == nil {
		return nil
	} else if ctx.Err() == nil {
		return types.Errorf(types.Internal, "follow containerd, process %d: %w", pid, err)
	}
	if d.conf.Keep {
		d.conf.Logger.Info("containerd is left running", zap.String("address", d.address))
		return nil
	}
	return d.stop(fd, pid)
}

// awaitable makes a pollable file of a process's descriptor: to wait for it takes no thread and no
// polling interval. The file owns the descriptor.
func awaitable(fd int) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "containerd"), nil
}

// awaitEnd returns nil when the process has ended, and an error when ctx is done.
func awaitEnd(ctx context.Context, process *os.File) error {
	raw, err := process.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = process.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	return raw.Read(func(fd uintptr) bool { return ended(int(fd), 0) })
}

// stop ends the process, with SIGTERM first.
func (d *Daemon) stop(fd, pid int) error {
	signals := []unix.Signal{unix.SIGTERM, unix.SIGKILL}
	for _, signal := range signals {
		if err := unix.PidfdSendSignal(fd, signal, nil, 0); errors.Is(err, unix.ESRCH) {
			return nil
		}
		if ended(fd, stopWait) {
			d.conf.Logger.Info("containerd stopped", zap.String("address", d.address))
			return d.dropSockets()
		}
	}
	return types.Errorf(types.Internal, "stop containerd, process %d: it does not end", pid)
}

// dropSockets removes the sockets of an ended daemon, which leaves one behind.
func (d *Daemon) dropSockets() error {
	for _, path := range []string{d.conf.socket(), d.conf.socket() + ttrpcSuffix} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return types.Errorf(types.Internal, "remove the socket of containerd: %w", err)
		}
	}
	return nil
}

// ended reports whether the process ends within limit.
func ended(fd int, limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		left := max(0, time.Until(deadline))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// peer returns the id of the process that listens on the Unix socket at address. Unlike a PID file,
// it is never stale.
func peer(address string) (int, error) {
	conn, err := net.Dial("unix", address)
	if err != nil {
		return 0, types.Errorf(types.Unavailable, "reach containerd at %s: %w", address, err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, types.Errorf(types.Internal, "look at the socket %s: %w", address, err)
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, credErr); err != nil {
		return 0, types.Errorf(types.Internal, "look at the socket %s: %w", address, os.NewSyscallError("getsockopt", err))
	}
	return int(cred.Pid), nil
}
