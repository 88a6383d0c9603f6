package cli

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// topAmount is how much there is of a resource, as text; what is not known is empty.
type topAmount struct {
	Capacity  string `json:"capacity,omitempty"`
	Allocated string `json:"allocated,omitempty"`
	// Used is what containers really use.
	Used string `json:"used,omitempty"`
}

func (a topAmount) ofCapacity() string {
	if a.Capacity == "" {
		return ""
	}
	return a.Allocated + "/" + a.Capacity
}

// topNode is a node with what is used of it, as it is printed.
type topNode struct {
	Name   string    `json:"name"`
	Status string    `json:"status"`
	CPU    topAmount `json:"cpu"`
	Memory topAmount `json:"memory"`
	GPU    topAmount `json:"gpu"`
	// Running is how many containers run, of all namespaces, nil if the agent
	// does not answer.
	Running *int `json:"running,omitempty"`
}

// Header returns the columns.
func (topNode) Header() []table.Column {
	return table.Columns("node", "status", "cpu used", "cpu", "memory used", "memory", "gpu", "running")
}

// Row returns what stands in them.
func (n topNode) Row() []string {
	running := ""
	if n.Running != nil {
		running = strconv.Itoa(*n.Running)
	}
	return []string{
		n.Name, n.Status, n.CPU.Used, n.CPU.ofCapacity(), n.Memory.Used, n.Memory.ofCapacity(), n.GPU.ofCapacity(), running,
	}
}

// topTask is a task with what it uses, as it is printed.
type topTask struct {
	ID    string      `json:"id"`
	Phase types.Phase `json:"phase"`
	Node  string      `json:"node"`
	// CPU, in cores, and Memory are empty if the agent does not answer.
	CPU       string         `json:"cpu,omitempty"`
	Memory    string         `json:"memory,omitempty"`
	Processes int64          `json:"processes,omitempty"`
	Requests  types.Requests `json:"requests"`

	age   time.Duration
	cores float64
	bytes int64
}

// Header returns the columns.
func (topTask) Header() []table.Column {
	return table.Columns("task", "phase", "node", "cpu", "memory", "processes", "age", "(requests)")
}

// Row returns what stands in them.
func (t topTask) Row() []string {
	processes := ""
	if t.Processes > 0 {
		processes = strconv.FormatInt(t.Processes, 10)
	}
	return []string{t.ID, string(t.Phase), t.Node, t.CPU, t.Memory, processes, shortly(t.age), requestsText(t.Requests)}
}

// using is what one attempt, or all of a node, use.
type using struct {
	cores     float64
	bytes     int64
	processes int64
}

// attempt is one of a task.
type attempt struct {
	Task   cluster.ID
	Number int
}

// used is an attempt on its node.
type used struct {
	node string
	attempt
}

// use says what every attempt uses: the processor time is that between two samples,
// and is not known of one that is new.
func use(before, latest sample) map[used]using {
	earlier := make(map[used]float64)
	for node, list := range before.nodes {
		for _, u := range list {
			earlier[used{node, attemptOf(u.Namespace, u.Task, u.Attempt)}] = u.CPUSeconds
		}
	}
	seconds := latest.at.Sub(before.at).Seconds()
	all := make(map[used]using)
	for node, list := range latest.nodes {
		for _, u := range list {
			at := used{node, attemptOf(u.Namespace, u.Task, u.Attempt)}
			x := using{bytes: u.MemoryBytes, processes: u.Processes}
			if was, ok := earlier[at]; ok && seconds > 0 {
				// It may have been run again in between, and begun at 0.
				x.cores = max(0, u.CPUSeconds-was) / seconds
			}
			all[at] = x
		}
	}
	return all
}

func attemptOf(ns, task string, number int) attempt {
	return attempt{Task: cluster.ID{Namespace: ns, ID: task}, Number: number}
}

// rows makes the rows of nodes, and of the tasks that have one, those that use most
// first.
func (t *top) rows() ([]topNode, []topTask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := use(t.before, t.latest)
	sums := make(map[string]using)
	for at, x := range all {
		sum := sums[at.node]
		sums[at.node] = using{cores: sum.cores + x.cores, bytes: sum.bytes + x.bytes}
	}
	nodes := []topNode{}
	for _, n := range t.view.Show(t.f.Namespace()).Nodes {
		nodes = append(nodes, t.nodeRow(nodeRow{NodeState: n}, sums[n.Name]))
	}
	tasks := []topTask{}
	now := time.Now()
	for _, r := range taskRows(t.view, t.f.Namespace(), now, func(r taskRow) bool { return r.Phase.Held() }) {
		row := topTask{ID: r.ID, Phase: r.Phase, Node: r.Node, Requests: r.Requests, age: r.age}
		if x, ok := all[used{r.Node, attemptOf(t.f.Namespace(), r.ID, r.Attempt)}]; ok {
			row.cores, row.bytes, row.Processes = x.cores, x.bytes, x.processes
			row.CPU, row.Memory = coresText(x.cores), bytesText(x.bytes)
		}
		tasks = append(tasks, row)
	}
	slices.SortStableFunc(tasks, func(a, b topTask) int {
		return cmp.Or(cmp.Compare(roughly(b.cores), roughly(a.cores)), cmp.Compare(b.bytes, a.bytes))
	})
	return nodes, tasks
}

// nodeRow makes the row of a node whose containers use that much.
func (t *top) nodeRow(n nodeRow, sum using) topNode {
	row := topNode{Name: n.Name, Status: n.status(), CPU: n.amount(types.CPU), Memory: n.amount(types.Memory), GPU: n.amount(types.GPU)}
	list, answered := t.latest.nodes[n.Name]
	if !answered {
		return row
	}
	running := len(list)
	row.Running, row.CPU.Used, row.Memory.Used = &running, coresText(sum.cores), bytesText(sum.bytes)
	return row
}

func (n nodeRow) amount(id types.ResourceID) topAmount {
	a, ok := n.Get(string(id))
	if !ok {
		return topAmount{}
	}
	return topAmount{Capacity: a.Capacity.Format(id), Allocated: a.Allocated.Format(id)}
}

// roughly makes what is nearly the same the same, so that rows do not change places
// all the time.
func roughly(cores float64) int { return int(cores*20 + 0.5) }

func coresText(cores float64) string { return strconv.FormatFloat(cores, 'f', 2, 64) }

// bytesText formats an amount of memory to three digits or so.
func bytesText(bytes int64) string {
	const ki = 1 << 10
	value, units := float64(bytes), []string{"B", "Ki", "Mi", "Gi", "Ti"}
	for value >= 1000 && len(units) > 1 {
		value, units = value/ki, units[1:]
	}
	digits := 0
	if value < 10 && units[0] != "B" {
		digits = 1
	}
	return strconv.FormatFloat(value, 'f', digits, 64) + units[0]
}
