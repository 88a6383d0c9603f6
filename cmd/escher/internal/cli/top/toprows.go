package top

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/node"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/show"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

// topAmount is an amount of a resource, as text; unknown values are empty.
type topAmount struct {
	Capacity  string `json:"capacity,omitempty"`
	Allocated string `json:"allocated,omitempty"`
	// Used is the measured usage of tasks.
	Used string `json:"used,omitempty"`
}

func (a topAmount) ofCapacity() string {
	if a.Capacity == "" {
		return ""
	}
	return a.Allocated + "/" + a.Capacity
}

// topNode is a row of a list of nodes with their usage.
type topNode struct {
	Name   string    `json:"name"`
	Status string    `json:"status"`
	CPU    topAmount `json:"cpu"`
	Memory topAmount `json:"memory"`
	GPU    topAmount `json:"gpu"`
	// Running is how many containers run, in all namespaces, nil if the agent does not answer.
	Running *int `json:"running,omitempty"`
	// Usage is the usage of the machine.
	Usage *measured.Node `json:"usage,omitempty"`

	sum measured.Sum
}

// Header returns the columns.
func (topNode) Header() []table.Column {
	return table.Columns("node", "status", "cpu used", "cpu", "memory used", "memory", "gpu used", "gpu", "pressure", "running",
		"(machine cpu)", "(machine memory)", "(read/s)", "(write/s)")
}

// Row returns the cells.
func (n topNode) Row() []string {
	running := ""
	if n.Running != nil {
		running = strconv.Itoa(*n.Running)
	}
	var machine measured.Node
	if n.Usage != nil {
		machine = *n.Usage
	}
	return []string{
		n.Name, n.Status, n.CPU.Used, n.CPU.ofCapacity(), n.Memory.Used, n.Memory.ofCapacity(), n.GPU.Used, n.GPU.ofCapacity(),
		render.PressureText(machine.Pressure), running,
		render.CoresText(machine.CPUMilli), render.BytesText(machine.MemoryBytes), render.RateText(machine.IOReadBytesPerSecond), render.RateText(machine.IOWriteBytesPerSecond),
	}
}

// topTask is a row of a list of tasks with their usage.
type topTask struct {
	ID     string       `json:"id"`
	Phase  types.Phase  `json:"phase"`
	Health types.Health `json:"health,omitempty"`
	Node   string       `json:"node"`
	// CPU, in cores, and Memory are empty if the agent does not report them.
	CPU       string         `json:"cpu,omitempty"`
	Memory    string         `json:"memory,omitempty"`
	Processes int64          `json:"processes,omitempty"`
	Requests  types.Requests `json:"requests"`
	// Usage is nil if the agent does not answer, or the task does not run.
	Usage *measured.Task `json:"usage,omitempty"`

	age time.Duration
}

// Header returns the columns.
func (topTask) Header() []table.Column {
	return table.Columns("task", "phase", "node", "cpu", "memory", "of limit", "read/s", "write/s", "gpu", "(gpu memory)", "pressure", "processes", "age", "(requests)")
}

// Row returns the cells.
func (t topTask) Row() []string {
	processes := ""
	if t.Processes > 0 {
		processes = strconv.FormatInt(t.Processes, 10)
	}
	var u measured.Task
	if t.Usage != nil {
		u = *t.Usage
	}
	return []string{
		t.ID, render.PhaseText(t.Phase, t.Health), t.Node, t.CPU, t.Memory, render.OfLimitText(u.Use), render.RateText(u.IOReadBytesPerSecond), render.RateText(u.IOWriteBytesPerSecond),
		render.BusyText(u.Devices), render.DeviceMemoryText(u.Devices), render.PressureText(u.Pressure), processes, render.Shortly(t.age), render.RequestsText(t.Requests),
	}
}

// attempt is an attempt of a task.
type attempt struct {
	Task   cluster.ID
	Number int
}

// onNode is an attempt on its node.
type onNode struct {
	node string
	attempt
}

func attemptOf(ns, task string, number int) attempt {
	return attempt{Task: cluster.ID{Namespace: ns, ID: task}, Number: number}
}

// rows makes the rows of nodes, and of the tasks with a node.
func (t *top) rows() ([]topNode, []topTask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	nodes := []topNode{}
	for _, n := range t.view.Show(t.f.Namespace()).Nodes {
		if t.what == "nodes" && !t.labels.Matches(n.Labels) {
			continue
		}
		nodes = append(nodes, t.nodeRow(node.NodeRow{NodeState: n}))
	}
	all := make(map[onNode]*measured.Task)
	for node, used := range t.used {
		for i, u := range used.Tasks {
			all[onNode{node, attemptOf(u.Namespace, u.Task, u.Attempt)}] = &used.Tasks[i]
		}
	}
	tasks := []topTask{}
	now := time.Now()
	for _, r := range show.TaskRows(t.view, t.f.Namespace(), now, func(r show.TaskRow) bool { return r.Phase.Held() && t.labels.Selects(r.Labels) }) {
		row := topTask{ID: r.ID, Phase: r.Phase, Health: r.Health, Node: r.Node, Requests: r.Requests, age: r.Age}
		if u := all[onNode{r.Node, attemptOf(t.f.Namespace(), r.ID, r.Attempt)}]; u != nil {
			row.Usage, row.CPU, row.Memory = u, render.CoresText(u.CPUMilli), render.BytesText(u.MemoryBytes)
			row.Processes = render.OrZero(u.Processes)
		}
		tasks = append(tasks, row)
	}
	if t.sort != sortDefault {
		slices.SortStableFunc(nodes, func(a, b topNode) int { return t.sort.compare(a.measures(), b.measures()) })
	}
	by := cmp.Or(t.sort, sortCPU)
	slices.SortStableFunc(tasks, func(a, b topTask) int { return by.compare(a.measures(), b.measures()) })
	return nodes, tasks
}

// nodeRow makes the row of a node.
func (t *top) nodeRow(n node.NodeRow) topNode {
	row := topNode{Name: n.Name, Status: n.Status(), CPU: amount(n, types.CPU), Memory: amount(n, types.Memory), GPU: amount(n, types.GPU)}
	used, answered := t.used[n.Name]
	if !answered {
		return row
	}
	row.sum = measured.SumOf(used.Tasks)
	row.Running, row.CPU.Used, row.Memory.Used = &row.sum.Running, render.CoresText(row.sum.CPUMilli), render.BytesText(row.sum.MemoryBytes)
	if used.Machine != nil {
		row.Usage, row.GPU.Used = used.Machine, render.BusyText(used.Machine.Devices)
	}
	return row
}

func amount(n node.NodeRow, id types.ResourceID) topAmount {
	a, ok := n.Get(string(id))
	if !ok {
		return topAmount{}
	}
	return topAmount{Capacity: a.Capacity.Format(id), Allocated: a.Allocated.Format(id)}
}
