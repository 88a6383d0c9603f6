package container

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

const forwardHelp = `Listens on ports of this machine, at 127.0.0.1, and passes each connection on to a port of
the node of a running task, through the API of the node. PORT is the name of a port of the
task, or any number; before a colon, the port to listen on here: none means a free one. A
task on this machine has its own port: another one is listened on. It ends with the task,
or with Ctrl-C.

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
			// Each connection needs it: without it, the command ends before it listens.
			if err := f.May(ctx, rights.Need{Verb: rights.Enter, Kind: rights.Tasks}, on.ns); err != nil {
				return err
			}
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
			return on.forward(ctx, f, all, known)
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
	if remote == "" {
		return p, types.Errorf(types.Invalid, "PORT: %q has no port of the task after the colon: write %s", text, strings.TrimSuffix(text, ":"))
	}
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

// ports returns the ports of the task by name; none if it has just ended, which the node then says.
func (on *onTask) ports(ctx context.Context, f *cmdutil.Factory) (map[string]int, error) {
	client, err := f.Client(ctx)
	if err != nil {
		return nil, err
	}
	spec, err := client.Spec(ctx, on.spec)
	if err != nil {
		return nil, err
	}
	return cmdutil.PortsOf(ctx, client, spec, on.client.Node(), on.id, on.attempt)
}

// errItself is why a port is not listened on.
var errItself = types.Errorf(types.Precondition, "connections would come back to it, as it is a port of the task, which runs on this machine")

// listen listens on a port of this machine for one of all forwardings. If it is in use and the user did
// not choose it, it takes a free one.
func (on *onTask) listen(ctx context.Context, f *cmdutil.Factory, p forwarding, all []forwarding) (l net.Listener, err error) {
	at := func(port int) (net.Listener, error) {
		return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	if itself := func(q forwarding) bool { return q.remote == p.local }; on.client.Here() && slices.ContainsFunc(all, itself) {
		err = errItself
	} else {
		l, err = at(p.local)
	}
	if p.given || !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, errItself) {
		return l, err
	}
	f.Tell("port %d of this machine is in use, or the task's own: a free one is used here", p.local)
	return at(0)
}

// forward listens and passes connections on, until ctx is done or the task does not run any more.
// known are the ports of the task by name.
func (on *onTask) forward(ctx context.Context, f *cmdutil.Factory, all []forwarding, known map[string]int) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range all {
		l, err := on.listen(ctx, f, p, all)
		if err != nil {
			return types.Errorf(types.Precondition, "listen on port %d: %w: give another one, as in :%d", p.local, err, p.remote)
		}
		defer l.Close()
		context.AfterFunc(ctx, func() { _ = l.Close() })
		fmt.Fprintf(f.Out, "%s -> %s:%d\n", l.Addr(), on.id, p.remote)
		group.Go(func() error { return on.accept(ctx, f, l, p.remote, known) })
	}
	return group.Wait()
}

// accept passes the connections of a listener on. Only the end of the task ends it: another
// connection may succeed.
func (on *onTask) accept(ctx context.Context, f *cmdutil.Factory, l net.Listener, port int, known map[string]int) error {
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
			f.Tell("port %d: %v%s", port, err, others(port, known))
			return nil
		})
	}
}

// others names the ports of a task, for the end of an error, unless port is one of them.
func others(port int, known map[string]int) string {
	if len(known) == 0 || slices.Contains(slices.Collect(maps.Values(known)), port) {
		return ""
	}
	return "; ports of the task are " + types.PortsText(known)
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
