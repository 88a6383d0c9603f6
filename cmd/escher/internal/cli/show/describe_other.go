package show

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/resource"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
	"github.com/escher-sched/escher/types/words"
)

// jobDescription describes a job.
type jobDescription struct {
	jobRow
	Namespace string    `json:"namespace"`
	List      []TaskRow `json:"list"`
	// Policies are those of its tasks, nil if there are none.
	Policies *policiesDescription `json:"policies,omitempty"`

	now time.Time
}

// mostListed is the most tasks that a description lists as text.
const mostListed = 20

// job describes a job.
func (d *describing) job(ctx context.Context, id cluster.ID) (description, error) {
	if d.view.Jobs[id] == nil {
		return nil, gone(cmdutil.Named{Kind: controlplane.Jobs, ID: id.ID})
	}
	ofJob := func(t TaskRow) bool { return t.Job == id.ID }
	rows := TaskRows(d.view, id.Namespace, d.now, ofJob)
	addPorts(ctx, d.client, rows)
	policies, err := d.policiesOf(ctx, id.ID)
	return &jobDescription{
		jobRow: newJobRow(d.view, id, d.now), Namespace: id.Namespace,
		List: rows, Policies: policies, now: d.now,
	}, err
}

// Write writes it as text.
func (j *jobDescription) Write(w io.Writer) error {
	s := render.NewSheet(w)
	s.Line("Job", j.ID)
	s.Line("Name", j.Name)
	s.Line("User", issued.Text(j.User))
	s.Line("Labels", types.LabelsText(types.LabelsOf(j.Labels)))
	s.Line("Namespace", j.Namespace)
	s.Line("Phase", string(j.Phase))
	s.Line("Tasks", fmt.Sprintf("%d: %s", j.Tasks, cmdutil.First(phasesText(j.Phases), "none is remembered")))
	s.Line("Submitted", render.When(j.Submitted.UnixNano(), j.now))
	if j.Policies != nil {
		j.Policies.writePolicies(s)
	}
	s.Text("Tasks", tasksText(j.List, "escher ps -a --job "+j.ID))
	return s.End()
}

// tasksText lists tasks, those with a message first.
func tasksText(tasks []TaskRow, more string) []string {
	var lines []string
	for _, notable := range []bool{true, false} {
		for _, t := range tasks {
			if (t.Reason != "" || t.Phase == types.Failed) != notable {
				continue
			}
			text := t.ID + "  " + render.PhaseText(t.Phase, t.Health)
			if t.Node != "" {
				text += " on " + t.Node
			}
			if len(t.Ports) > 0 {
				text += ", " + types.PortsText(t.Ports)
			}
			if t.Reason != "" {
				text += ": " + t.Reason
			}
			lines = append(lines, text)
		}
	}
	if len(lines) > mostListed {
		lines = append(lines[:mostListed], fmt.Sprintf("… and %d more: %s", len(lines)-mostListed, more))
	}
	return lines
}

// reservationDescription describes a reservation.
type reservationDescription struct {
	resource.ReservationRow
	Namespace  string             `json:"namespace"`
	Priority   int                `json:"priority,omitempty"`
	Accumulate bool               `json:"accumulate,omitempty"`
	Lost       types.LostBundles  `json:"lost,omitempty"`
	Session    string             `json:"session,omitempty"`
	Submitted  *time.Time         `json:"submitted,omitempty"`
	Why        *reasons.Explained `json:"why,omitempty"`
	// Drawing are the tasks that draw on it.
	Drawing []TaskRow `json:"drawing,omitempty"`

	now time.Time
}

// reservation describes a reservation.
func (d *describing) reservation(id cluster.ID) (description, error) {
	r := d.view.Reservations[id]
	if r == nil {
		return nil, gone(cmdutil.Named{Kind: controlplane.Reservations, ID: id.ID})
	}
	out := &reservationDescription{ReservationRow: resource.NewReservationRow(id, r, d.now), Namespace: id.Namespace, now: d.now}
	if v := r.Info.V; v != nil {
		out.Priority, out.Accumulate, out.Session, out.Submitted = v.Priority, v.Accumulate, v.Session, document.Moment(v.Submitted)
		out.Lost = v.Lost
	}
	if out.Phase != string(types.Granted) {
		out.Why = &d.why
	}
	drawing := make(map[string]bool)
	for _, n := range d.view.Nodes {
		for _, b := range n.Bindings {
			if b.Info.V == nil {
				continue
			}
			for _, h := range b.Info.V.Holds {
				if ns, _, reservation := h.Resource.Split(); ns == id.Namespace && reservation == id.ID {
					drawing[b.Task.ID.ID] = true
				}
			}
		}
	}
	out.Drawing = TaskRows(d.view, id.Namespace, d.now, func(t TaskRow) bool { return drawing[t.ID] })
	return out, nil
}

// Write writes it as text.
func (r *reservationDescription) Write(w io.Writer) error {
	s := render.NewSheet(w)
	s.Line("Reservation", r.ID)
	s.Line("Namespace", r.Namespace)
	s.Line("Phase", r.Phase)
	if r.Submitted != nil {
		s.Line("Submitted", render.When(r.Submitted.UnixNano(), r.now))
	}
	if r.Priority != 0 {
		s.Line("Priority", strconv.Itoa(r.Priority))
	}
	if r.Accumulate {
		s.Line("Accumulates", "what becomes free, once it has waited")
	}
	if r.Lost == types.MoveBundles {
		s.Line("Moves", "what is on a node that is lost, or drained")
	}
	s.Line("Session", r.Session)
	s.Group("Bundles")
	for i, b := range r.Bundles {
		text := render.NeedsText(b.Requests, b.Devices)
		switch {
		case i < len(r.Nodes) && r.Nodes[i] != "":
			text += " on " + r.Nodes[i]
		case b.Node != "":
			text += ", to be on " + b.Node
		}
		s.Line("  "+strconv.Itoa(i+1), text)
	}
	if r.Why != nil {
		s.Text("Why it waits", r.Why.Sentences(false, howto.Say))
	}
	s.Text("Drawn on by", tasksText(r.Drawing, "escher ps -o wide"))
	return s.End()
}

// nodeDescription describes a node.
type nodeDescription struct {
	cluster.NodeState
	Address string    `json:"address,omitempty"`
	Ports   string    `json:"ports,omitempty"`
	Tasks   []TaskRow `json:"tasks,omitempty"`
	// Others is how many tasks of other namespaces are there.
	Others int `json:"others,omitempty"`

	// labels are its labels, each with its origin.
	labels []string
	now    time.Time
}

// Node describes a node, as its namespace sees it.
func (d *describing) Node(name string) (description, error) {
	state := d.view.Show(d.client.Namespace()).Node(name)
	n := d.view.Nodes[name]
	if state == nil || n == nil || n.Info.V == nil {
		return nil, gone(cmdutil.Named{Kind: controlplane.Nodes, ID: name})
	}
	out := &nodeDescription{NodeState: *state, Address: n.Info.V.Address, labels: labelsOf(n.Info.V), now: d.now}
	if n.Info.V.PortLast > 0 {
		out.Ports = fmt.Sprintf("%d-%d", n.Info.V.PortFirst, n.Info.V.PortLast)
	}
	here := make(map[string]bool)
	for _, b := range n.Bindings {
		if b.Task.ID.Namespace == d.client.Namespace() {
			here[b.Task.ID.ID] = true
		} else {
			out.Others++
		}
	}
	out.Tasks = TaskRows(d.view, d.client.Namespace(), d.now, func(t TaskRow) bool { return here[t.ID] })
	return out, nil
}

// labelsOf returns the labels of a node, with what administrators have changed.
func labelsOf(n *types.Node) []string {
	hidden := types.LabelMap(n.HiddenLabels)
	var texts []string
	for _, l := range n.Labels {
		text := l.Name + "=" + l.Value
		was, replaced := hidden[l.Name]
		switch {
		case replaced:
			text += " (set, in place of " + was + " of its agent)"
		case slices.Contains(n.SetLabels, l):
			text += " (set)"
		}
		delete(hidden, l.Name)
		texts = append(texts, text)
	}
	for _, l := range types.LabelsOf(hidden) {
		texts = append(texts, l.Name+"- (removed; "+l.Value+" of its agent)")
	}
	return texts
}

// drainText describes the drain of a node, and its progress.
func (n *nodeDescription) drainText() string {
	text := string(n.Drain)
	if n.DrainBy != nil {
		text += " until " + render.When(n.DrainBy.UnixNano(), n.now)
	}
	return text + ": " + words.Count(len(n.Tasks)+n.Others, "task") + " left"
}

// Write writes it as text.
func (n *nodeDescription) Write(w io.Writer) error {
	s := render.NewSheet(w)
	s.Line("Node", n.Name)
	phase := "alive"
	if !n.Alive {
		phase = "lost"
	}
	if n.Cordoned {
		phase += ", cordoned: nothing new is bound to it"
	}
	s.Line("Phase", phase)
	s.Line("Reason", n.Reason)
	if n.Drain != "" {
		s.Line("Drain", n.drainText())
	}
	s.Line("Version", n.Version)
	s.Line("Address", n.Address)
	s.Line("Ports", n.Ports)
	s.Lines("Labels", n.labels)
	s.Group("Resources: in use of what there is")
	for _, a := range n.Resources {
		id := types.ResourceID(a.Name)
		s.Line("  "+a.Name, a.Allocated.Format(id)+" of "+a.Capacity.Format(id))
	}
	s.Text("Tasks", tasksText(n.Tasks, "escher ps"))
	if n.Others > 0 {
		s.Text("Other namespaces", []string{words.Count(n.Others, "task")})
	}
	return s.End()
}
