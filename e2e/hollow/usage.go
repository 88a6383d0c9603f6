package hollow

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

// use is the simulated usage of a task.
type use struct {
	milliCPU float64
	memory   int64
}

// waits is how long the processes of a task have waited until a time.
type waits struct {
	seconds float64
	until   time.Time
}

// SetUse makes the processes of a task use so many thousandths of a core, and bytes of memory, from now
// on. Other processes use nothing.
func (c *Cluster) SetUse(ns, task string, milliCPU, memory int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses[cluster.ID{Namespace: ns, ID: task}] = use{float64(milliCPU), memory}
}

// SetLosses makes the processes of each task wait for a processor for a part of the time, from 0 to 1, from
// now on: that which of returns for the task and the tasks beside it on its node.
func (c *Cluster) SetLosses(of func(task cluster.ID, beside []cluster.ID) float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses = of
}

// waited returns the pressure of a task until now, and counts the time since the last answer as it is now.
// The caller holds c.mu.
func (c *Cluster) waited(task cluster.ID, all []nodeagent.Observed, now time.Time) *measured.Pressure {
	if c.losses == nil {
		return nil
	}
	var beside []cluster.ID
	for _, o := range all {
		if id := (cluster.ID{Namespace: o.Attempt.Namespace, ID: o.Attempt.Task}); o.Running && id != task {
			beside = append(beside, id)
		}
	}
	w := c.waits[task]
	if !w.until.IsZero() {
		w.seconds += now.Sub(w.until).Seconds() * c.losses(task, beside)
	}
	w.until = now
	c.waits[task] = w
	return &measured.Pressure{CPU: &measured.Stall{SomeSeconds: w.seconds, FullSeconds: w.seconds}}
}

// Silence makes a node not answer what it uses, or answer again.
func (c *Cluster) Silence(node string, silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent[node] = silent
}

// SetOthers makes other programs of a machine use so many bytes of its memory from now on.
func (c *Cluster) SetOthers(node string, memory int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others[node] = memory
}

// Measured returns the simulated usage of a node, for policies: see keep.Measure. Unavailable: the node
// does not run, or is silent.
func (c *Cluster) Measured(ctx context.Context, node string, _ time.Time) (measured.Answer, error) {
	c.mu.Lock()
	m, silent := c.nodes[node], c.silent[node]
	c.mu.Unlock()
	if silent {
		<-ctx.Done()
		return measured.Answer{}, types.Errorf(types.Unavailable, "ask node %s: %w", node, ctx.Err())
	}
	if m == nil {
		return measured.Answer{}, types.Errorf(types.Unavailable, "ask node %s: it does not run", node)
	}
	there, err := m.runtime.List(ctx)
	if err != nil {
		return measured.Answer{}, err
	}
	now := time.Now()
	said := measured.Answer{Tasks: []measured.Task{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range there {
		if !o.Running {
			continue
		}
		u := c.uses[cluster.ID{Namespace: o.Attempt.Namespace, ID: o.Attempt.Task}]
		said.Tasks = append(said.Tasks, measured.Task{
			Namespace: o.Attempt.Namespace, Task: o.Attempt.Task, Attempt: o.Attempt.Number,
			Use: measured.Use{
				At: now, OverSeconds: 1, CPUMilli: &u.milliCPU, MemoryBytes: &u.memory,
				Pressure: c.waited(cluster.ID{Namespace: o.Attempt.Namespace, ID: o.Attempt.Task}, there, now),
			},
		})
	}
	said.Machine = c.machine(node, now, said.Tasks)
	return said, nil
}

// machine returns the usage of a machine by tasks and other programs. The caller holds c.mu.
func (c *Cluster) machine(node string, now time.Time, tasks []measured.Task) *measured.Node {
	sum := measured.SumOf(tasks)
	used := *sum.MemoryBytes + c.others[node]
	out := &measured.Node{Node: node, Tasks: sum, Use: measured.Use{At: now, OverSeconds: 1, CPUMilli: sum.CPUMilli, MemoryBytes: &used}}
	for _, n := range c.cfg.Nodes {
		if memory := int64(n.Capacity[string(types.Memory)]); n.Name == node {
			out.Processors, out.MemoryLimitBytes = int(n.Capacity[string(types.CPU)]/1000), &memory
		}
	}
	return out
}
