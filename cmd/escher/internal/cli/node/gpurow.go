package node

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// amount is a share of a device to print: 1 is all of it.
type amount types.Quantity

// String formats it.
func (a amount) String() string { return types.Quantity(a).Format(types.GPU) }

// MarshalJSON writes it in the form of a request.
func (a amount) MarshalJSON() ([]byte, error) { return []byte(strconv.Quote(a.String())), nil }

// deviceHolder is the holder of a share of a device. Without names it belongs to another namespace.
type deviceHolder struct {
	Namespace string `json:"namespace,omitempty"`
	Task      string `json:"task,omitempty"`
	// Reservation is the one that the task draws on, or that holds the share without a task.
	Reservation string `json:"reservation,omitempty"`
	Share       amount `json:"share"`
}

func compareHolders(a, b deviceHolder) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Task, b.Task), strings.Compare(a.Reservation, b.Reservation))
}

// String formats the holder: 0.5 default/train (of gang).
func (h deviceHolder) String() string {
	const all = 1000
	var text string
	switch {
	case h.Namespace == "":
		text = "another namespace"
	case h.Task == "":
		text = "reservation " + h.Namespace + "/" + h.Reservation
	case h.Reservation == "":
		text = h.Namespace + "/" + h.Task
	default:
		text = h.Namespace + "/" + h.Task + " (of " + h.Reservation + ")"
	}
	if h.Share != all {
		text = h.Share.String() + " " + text
	}
	return text
}

// gpuRow is a row of a list of devices.
type gpuRow struct {
	// ID is its name in the CDI.
	ID       string `json:"id"`
	Node     string `json:"node"`
	Resource string `json:"resource"`
	Model    string `json:"model,omitempty"`
	// MemoryBytes and NUMA are left out where unknown.
	MemoryBytes int64    `json:"memoryBytes,omitempty"`
	NUMA        *int     `json:"numa,omitempty"`
	Links       []string `json:"links,omitempty"`
	Bus         string   `json:"bus,omitempty"`
	Parent      string   `json:"parent,omitempty"`
	// Unhealthy is why it is not allocated.
	Unhealthy      string         `json:"unhealthy,omitempty"`
	UnhealthySince *time.Time     `json:"unhealthySince,omitempty"`
	NodeLost       bool           `json:"nodeLost,omitempty"`
	HeldBy         []deviceHolder `json:"heldBy,omitempty"`

	now time.Time
}

func newGPURow(n *cluster.Node, d types.Device, held []deviceHolder, now time.Time) gpuRow {
	row := gpuRow{
		ID: d.ID, Node: n.Name, Resource: string(d.Resource), Model: d.Model, MemoryBytes: d.MemoryBytes, Links: d.Links, Bus: d.Bus,
		Parent: d.Parent, Unhealthy: d.Unhealthy, UnhealthySince: document.Moment(d.UnhealthySince), NodeLost: n.Alive.V == nil, HeldBy: held, now: now,
	}
	if d.NUMA >= 0 {
		row.NUMA = &d.NUMA
	}
	return row
}

// Header returns the columns.
func (gpuRow) Header() []table.Column {
	return table.Columns("device", "node", "resource", "model", "memory", "numa", "links", "held by", "(bus)", "(id)", "health")
}

// Row returns the cells.
func (g gpuRow) Row() []string {
	var memory, numa string
	if g.MemoryBytes > 0 {
		memory = types.Quantity(g.MemoryBytes).Format(types.Memory)
	}
	if g.NUMA != nil {
		numa = strconv.Itoa(*g.NUMA)
	}
	held := make([]string, len(g.HeldBy))
	for i, h := range g.HeldBy {
		held[i] = h.String()
	}
	return []string{
		g.short(), g.Node, g.Resource, g.Model, memory, numa, strings.Join(g.Links, ","), strings.Join(held, ", "), g.Bus, g.ID, g.health(),
	}
}

// short is the part of its name that identifies it on its node: GPU-f3a3c571 of a UUID.
func (g gpuRow) short() string {
	const letters = 12
	_, name, _ := strings.Cut(g.ID, "=")
	if strings.HasPrefix(name, "GPU-") || strings.HasPrefix(name, "MIG-") {
		name = name[:min(letters, len(name))]
	}
	return name
}

// health says whether it can be allocated.
func (g gpuRow) health() string {
	switch {
	case g.Unhealthy != "" && g.UnhealthySince != nil:
		return "unhealthy for " + render.Shortly(g.now.Sub(*g.UnhealthySince)) + ": " + g.Unhealthy
	case g.Unhealthy != "":
		return "unhealthy: " + g.Unhealthy
	case g.NodeLost:
		return "its node is lost"
	}
	return "ok"
}
