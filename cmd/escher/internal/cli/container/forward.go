package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

const forwardHelp = `Listens on ports of this machine, at 127.0.0.1, and passes each connection on to a port of
the node of a running task, through the API of the node. PORT is the name of a port of the
task, or any number; before a colon, the port to listen on here: none means a free one. It
ends with the task, or with Ctrl-C.

  escher port-forward web http              the port named http, under the same number here if that is free
  escher port-forward notebook 8888
  escher port-forward notebook 9000:8888    http://127.0.0.1:9000
  escher port-forward notebook :8888        a free port, which it prints`

// connectionsAtOnce is the largest number of connections of one port-forward.
const connectionsAtOnce = 256

// NewPortForward returns the command that passes connections on to tasks.
func NewPortForward(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "port-forward TASK PORT...",
		Short: "Pass connections to this machine on to a port of a task",
		Long:  forwardHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return types.Errorf(types.Invalid, "TASK: is missing: %s", cmdutil.Usage(cmd))
			case 1:
				return types.Errorf(types.Invalid, "PORT: is missing: %s", cmdutil.Usage(cmd))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			on, err := runningTask(f, ctx, args[0])
			if err != nil {
				return err
			}
			defer on.client.Close()
			known, err := on.ports(ctx, f)
			if err != nil {
				return err
			}
			var all []forwarding
			for _, text := range args[1:] {
				p, err := parseForward(text, known)
				if err != nil {
					return err
				}
				all = append(all, p)
			}
			return on.forward(ctx, f, all)
		},
	}
}

// forwarding is a port to listen on here, 0 for a free one, and the port of the node. given reports
// whether the user chose the port here.
type forwarding struct {
	local, remote int
	given         bool
}

// parseForward reads [LOCAL:]PORT; known are the ports of the task by name.
func parseForward(text string, known map[string]int) (forwarding, error) {
	local, remote, two := strings.Cut(text, ":")
	if !two {
		local, remote = "", text
	}
	var p forwarding
	var err error
	if p.remote, err = types.CheckPort(remote, known); err != nil {
		return p, types.Errorf(types.Invalid, "PORT: %w", err)
	}
	p.given = two
	switch {
	case !two:
		p.local = p.remote
	case local != "":
		if p.local, err = strconv.Atoi(local); err != nil || p.local < 0 || p.local > types.MaxPort {
			return p, types.Errorf(types.Invalid, "PORT: %q is not a port of this machine: give 1 to %d, or nothing before the colon for a free one", local, types.MaxPort)
		}
	}
	return p, nil
}

// ports returns the ports of the task by name.
func (on *onTask) ports(ctx context.Context, f *cmdutil.Factory) (map[string]int, error) {
	client, err := f.Client(ctx)
	if err != nil {
		return nil, err
	}
	page, err := client.Store().List(ctx, controlplane.ListOptions{Key: controlplane.BindingKey(on.client.Node(), on.ns, on.id, on.attempt)})
	if err != nil || len(page.KVs) == 0 {
		return nil, err // It has just ended: the node says so.
	}
	var b types.Binding
	if !controlplane.Read(page.KVs[0], &b) {
		return nil, nil
	}
	spec, err := client.Spec(ctx, b.Spec)
	if err != nil {
		return nil, err
	}
	return spec.PortNumbers(b.Ports()), nil
}

// listen listens on a port of this machine; 0 means a free one.
func listen(ctx context.Context, port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// forward listens and passes connections on, until ctx is done or the task does not run any more.
func (on *onTask) forward(ctx context.Context, f *cmdutil.Factory, all []forwarding) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range all {
		l, err := listen(ctx, p.local)
		if errors.Is(err, syscall.EADDRINUSE) && !p.given {
			// On the machine of a task without a network of its own, that is its own port.
			f.Tell("port %d of this machine is in use, perhaps by the task itself: a free one is used here", p.local)
			l, err = listen(ctx, 0)
		}
		if err != nil {
			return types.Errorf(types.Precondition, "listen on port %d: %w: give another one, as in :%d", p.local, err, p.remote)
		}
		defer l.Close()
		context.AfterFunc(ctx, func() { _ = l.Close() })
		fmt.Fprintf(f.Out, "%s -> %s:%d\n", l.Addr(), on.id, p.remote)
		group.Go(func() error { return on.accept(ctx, f, l, p.remote) })
	}
	return group.Wait()
}

// accept passes the connections of a listener on. Only the end of the task ends it: another
// connection may succeed.
func (on *onTask) accept(ctx context.Context, f *cmdutil.Factory, l net.Listener, port int) error {
	group, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, func() { _ = l.Close() })
	group.SetLimit(connectionsAtOnce)
	for {
		conn, err := l.Accept()
		if err != nil {
			if failed := group.Wait(); failed != nil || ctx.Err() != nil {
				return failed
			}
			return types.Errorf(types.Unavailable, "listen on %s: %w", l.Addr(), err)
		}
		group.Go(func() error {
			defer conn.Close()
			err := on.client.Forward(ctx, on.ns, on.id, on.attempt, port, conn)
			switch {
			case err == nil || ctx.Err() != nil:
				return nil
			case on.over(ctx, f):
				return types.Errorf(types.Precondition, "forward port %d: task %s does not run any more: escher describe %s", port, on.id, on.id)
			}
			f.Tell("port %d: %v", port, err)
			return nil
		})
	}
}

// over reports whether the attempt is known to have ended.
func (on *onTask) over(ctx context.Context, f *cmdutil.Factory) bool {
	client, err := f.Client(ctx)
	if err != nil {
		return false
	}
	t, err := cmdutil.OneTask(ctx, client, on.id)
	return types.Is(err, types.NotFound) || err == nil && (t.Phase() != types.Running || t.Attempt() != on.attempt)
}
