package hollow

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/nodeagent/machine/usage"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// machine is a node with its agent, and its processes.
type machine struct {
	runtime *simruntime.Runtime
	stop    context.CancelFunc
	done    chan struct{}
}

// end ends the agent, and keeps its session.
func (m *machine) end() {
	m.stop()
	<-m.done
}

// start1 starts the machine of a node, without processes.
func (c *Cluster) start1(n Node) {
	conf := c.cfg.Runtime
	conf.Script = simruntime.Script(c.cfg.Behave)
	c.startAgent(n, simruntime.New(conf))
}

// startAgent starts the agent of a node, over the processes of a runtime.
func (c *Cluster) startAgent(n Node, runtime *simruntime.Runtime) {
	ctx, cancel := context.WithCancel(c.ctx)
	m := &machine{runtime: runtime, stop: cancel, done: make(chan struct{})}
	c.mu.Lock()
	c.nodes[n.Name] = m
	c.mu.Unlock()
	c.group.Go(func() error {
		defer close(m.done)
		stateDir := ""
		if c.cfg.StateDir != "" {
			stateDir = filepath.Join(c.cfg.StateDir, n.Name)
		}
		conf := nodeagent.Config{
			StateDir: stateDir,
			Store:    c.Store, Runtime: m.runtime, Cluster: c.id, Node: n.Name, TTL: c.cfg.TTL,
			Capacity: types.NewRequests(n.Capacity), Labels: labels(n.Labels), Devices: devicesOf(n), Host: n.Host, Ports: nodeagent.PortRange{First: n.PortFirst, Last: n.PortLast}, Logger: c.cfg.Log.Named("agent." + n.Name),
			BootClock: func() time.Duration { return time.Since(c.begin) + time.Hour }, BootID: "boot-" + n.Name,
		}
		var l net.Listener
		if c.cfg.APIDir != "" {
			path := filepath.Join(c.cfg.APIDir, n.Name)
			_ = os.Remove(path) // of a former agent
			var err error
			if l, err = net.Listen("unix", path); err != nil {
				return err
			}
			conf.Address = "unix://" + path
		}
		agent, err := nodeagent.New(conf)
		if err != nil {
			return err
		}
		if err := c.runAgent(ctx, agent, m.runtime, l); ctx.Err() == nil {
			return err
		}
		return nil
	})
}

// runAgent runs an agent, and its API at a listener; nil means no API.
func (c *Cluster) runAgent(ctx context.Context, agent *nodeagent.Agent, runtime *simruntime.Runtime, l net.Listener) error {
	if l == nil {
		return agent.Run(ctx)
	}
	group, ctx := errgroup.WithContext(ctx)
	sampler, err := usage.New(usage.Config{Node: agent.Node(), Workloads: agent.Workloads, Usage: runtime.Usage})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	group.Go(func() error { return agent.Run(ctx) })
	group.Go(func() error { return sampler.Run(ctx) })
	group.Go(func() error {
		return nodeapi.Serve(ctx, l, nodeapi.Config{Agent: agent, Runtime: runtime, Usage: sampler})
	})
	return group.Wait()
}

// devicesOf returns the simulated GPUs of a node; nil if it has none.
func devicesOf(n Node) nodeagent.DeviceSource {
	if n.GPUs == 0 {
		return nil
	}
	return devices.Simulated{Count: n.GPUs, Model: "Simulated", Links: "none", NUMA: 1}.Devices(n.Name)
}

func labels(m map[string]string) []types.Label {
	var out []types.Label
	for name, value := range m {
		out = append(out, types.Label{Name: name, Value: value})
	}
	return out
}

// Add starts a new node.
func (c *Cluster) Add(n Node) {
	c.cfg.Nodes = append(c.cfg.Nodes, n)
	c.start1(n)
}

// Kill ends a machine with all its processes, and its session at once. NotFound: it does not exist,
// or does not run.
func (c *Cluster) Kill(ctx context.Context, node string) error {
	if err := c.Cut(node); err != nil {
		return err
	}
	page, err := c.Store.List(ctx, controlplane.ListOptions{Key: controlplane.AliveKey(node)})
	if err != nil || len(page.KVs) == 0 {
		return err
	}
	return c.Store.RevokeLease(ctx, page.KVs[0].Lease)
}

// Cut is Kill, except that the session runs out.
func (c *Cluster) Cut(node string) error {
	c.mu.Lock()
	m := c.nodes[node]
	delete(c.nodes, node)
	c.mu.Unlock()
	if m == nil {
		return types.Errorf(types.NotFound, "kill node %s: it does not run", node)
	}
	m.end()
	return nil
}

// Return restarts the machine of a killed node. NotFound: there is none of that name.
func (c *Cluster) Return(node string) error {
	for _, n := range c.cfg.Nodes {
		if n.Name == node {
			c.start1(n)
			return nil
		}
	}
	return types.Errorf(types.NotFound, "return node %s: there is none", node)
}

// StopAgent ends the agent of a node at any point, as if it were killed: its processes and its session
// stay, until that runs out. NotFound: the node does not run.
func (c *Cluster) StopAgent(node string) error {
	c.mu.Lock()
	m := c.nodes[node]
	c.mu.Unlock()
	if m == nil {
		return types.Errorf(types.NotFound, "stop agent %s: its node does not run", node)
	}
	m.end()
	return nil
}

// StartAgent starts the agent of a node again after StopAgent. NotFound: the node does not run.
func (c *Cluster) StartAgent(node string) error {
	c.mu.Lock()
	m := c.nodes[node]
	c.mu.Unlock()
	at := slices.IndexFunc(c.cfg.Nodes, func(n Node) bool { return n.Name == node })
	if m == nil || at < 0 {
		return types.Errorf(types.NotFound, "start agent %s: its node does not run", node)
	}
	c.startAgent(c.cfg.Nodes[at], m.runtime)
	return nil
}

// Finish ends the process of a task now, with a code, as if by itself. NotFound: no process of it
// runs.
func (c *Cluster) Finish(ctx context.Context, ns, task string, code int) error {
	c.mu.Lock()
	machines := slices.Collect(maps.Values(c.nodes))
	c.mu.Unlock()
	for _, m := range machines {
		there, err := m.runtime.List(ctx)
		if err != nil {
			return err
		}
		for _, o := range there {
			if o.Attempt.Namespace == ns && o.Attempt.Task == task && o.Running {
				return m.runtime.Finish(o.ID, code)
			}
		}
	}
	return types.Errorf(types.NotFound, "finish task %s: it does not run", task)
}
