package parts

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/controlplane/sockets"
	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/usage"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// Agent is the agent of one node, with the node's API.
type Agent struct {
	// Config is the agent's; Start creates its StateDir, and sets its SocketDir.
	Config nodeagent.Config
	// Close closes the runtime when the agent has ended; nil means no call.
	Close func() error
	// Listen listens for the API, once the directories exist, and again if the API ended. It
	// returns the address that others use.
	Listen func(sockets string) (l net.Listener, address string, err error)
	// Usage says how to sample usage; Start sets the fields of the agent.
	Usage usage.Config
	// Health records its readiness. The API serves that and Metrics without a token.
	Health  *ops.Health
	Metrics prometheus.Gatherer
	// NodeTLS has the authorities of the APIs of other nodes; nil means the system's.
	NodeTLS *tls.Config
	// Server reaches the other nodes by a server, until a call of its second result; nil means that they are
	// dialed.
	Server func() (*nodeapi.Server, func(), error)
	// Outline hides names of tasks and reasons from requests without a token.
	Outline bool
}

// Start starts it.
func (a Agent) Start(stack *Stack) error {
	agent, l, err := a.make()
	if err != nil {
		return errors.Join(err, a.close())
	}
	a.Usage.Node, a.Usage.Log = a.Config.Node, a.Config.Logger.Named("usage")
	a.Usage.Workloads, a.Usage.Usage = agent.Workloads, a.Config.Runtime.Usage
	sampler, err := usage.New(a.Usage)
	if err != nil {
		return errors.Join(err, l.Close(), a.close())
	}
	a.Health.Check("agent "+a.Config.Node, agent.Ready)
	stack.Start("runtime of "+a.Config.Node, func(ctx context.Context) error {
		<-ctx.Done()
		return a.close()
	})
	stack.Start("agent "+a.Config.Node, agent.Run)
	stack.Start("usage of "+a.Config.Node, sampler.Run)
	stack.Start("API of "+a.Config.Node, func(ctx context.Context) (err error) {
		if l == nil {
			if l, _, err = a.Listen(a.Config.SocketDir); err != nil {
				return err
			}
		}
		defer func() { l = nil }() // the server has closed it
		conf := nodeapi.Config{Agent: agent, Runtime: a.Config.Runtime, Usage: sampler, Full: ops.Handler(a.Metrics, a.Health), Log: a.Config.Logger.Named("api"), Say: howto.Say}
		if conf.Open = conf.Full; a.Outline {
			conf.Open = ops.Outline(a.Metrics, a.Health, usage.TaskMetrics)
		}
		return nodeapi.Serve(ctx, l, conf)
	})
	return nil
}

func (a *Agent) make() (*nodeagent.Agent, net.Listener, error) {
	if err := os.MkdirAll(a.Config.StateDir, 0o700); err != nil {
		return nil, nil, types.Errorf(types.Precondition, "make the directory of %s: %w", a.Config.Node, err)
	}
	var err error
	if a.Config.SocketDir, err = sockets.Make(a.Config.StateDir); err != nil {
		return nil, nil, err
	}
	l, address, err := a.Listen(a.Config.SocketDir)
	if err != nil {
		return nil, nil, err
	}
	a.Config.Address = address
	a.Config.Say = howto.Say
	a.Config.Store = submitter.Store{Store: a.Config.Store, Rules: share.Rules(a.Config.Store)}
	a.Config.API = rest.ForTasks(rest.Config{Store: a.Config.Store, Voice: howto.Say, Now: time.Now, Log: a.Config.Logger.Named("task-sockets")})
	a.Config.FetchWorkdir = func(ctx context.Context, image string) error {
		nodes := nodeapi.Dialer{Store: a.Config.Store, TLS: a.NodeTLS}
		if a.Server != nil {
			server, done, err := a.Server()
			if err != nil {
				return err
			}
			defer done()
			nodes.Server = server
		}
		return nodes.FetchWorkdir(ctx, a.Config.Node, a.Config.Runtime, image)
	}
	agent, err := nodeagent.New(a.Config)
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return agent, l, nil
}

func (a *Agent) close() error {
	if a.Close == nil {
		return nil
	}
	return a.Close()
}

// Capacity returns the cpu and memory of this machine, as the capacity of a node; given overrides
// amounts.
func Capacity(given types.Requests) (types.Requests, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil, types.Errorf(types.Internal, "ask for the memory of this machine: %w", err)
	}
	const mebibyte = 1 << 20
	memory := uint64(info.Totalram) * uint64(info.Unit) / mebibyte * mebibyte
	amounts := map[string]types.Quantity{
		string(types.CPU):    types.Quantity(runtime.NumCPU() * 1000),
		string(types.Memory): types.Quantity(memory),
	}
	for _, r := range given {
		amounts[r.Name] = r.Amount
	}
	return types.NewRequests(amounts), nil
}
