package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// jobDescription is everything about a job.
type jobDescription struct {
	jobRow
	Namespace string    `json:"namespace"`
	List      []taskRow `json:"list"`
	// Policies are what its tasks keep to, nil if nothing.
	Policies *policiesDescription `json:"policies,omitempty"`

	now time.Time
}

// mostListed bounds how many tasks a description lists as text.
const mostListed = 20

// job describes a job.
func (d *describing) job(ctx context.Context, id cluster.ID) (description, error) {
	if d.view.Jobs[id] == nil {
		return nil, gone(named{controlplane.Jobs, id.ID})
	}
	ofJob := func(t taskRow) bool { return t.Job == id.ID }
	policies, err := d.policiesOf(ctx, id.ID)
	return &jobDescription{
		jobRow: newJobRow(d.view, id, d.now), Namespace: id.Namespace,
		List: taskRows(d.view, id.Namespace, d.now, ofJob), Policies: policies, now: d.now,
	}, err
}

// write writes it as text.
func (j *jobDescription) write(w io.Writer) error {
	s := newSheet(w)
	s.line("Job", j.ID)
	s.line("Name", j.Name)
	s.line("Namespace", j.Namespace)
	s.line("Phase", string(j.Phase))
	s.line("Tasks", fmt.Sprintf("%d: %s", j.Tasks, first(phasesText(j.Phases), "none is remembered")))
	s.line("Submitted", when(j.Submitted.UnixNano(), j.now))
	if j.Policies != nil {
		j.Policies.writePolicies(s)
	}
	s.text("Tasks", tasksText(j.List, "escher ps -a --job "+j.ID))
	return s.end()
}

// tasksText lists tasks, those first of which something is to be said.
func tasksText(tasks []taskRow, more string) []string {
	var lines []string
	for _, notable := range []bool{true, false} {
		for _, t := range tasks {
			if (t.Reason != "" || t.Phase == types.Failed) != notable {
				continue
			}
			text := t.ID + "  " + phaseText(t.Phase, t.Health)
			if t.Node != "" {
				text += " on " + t.Node
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

// reservationDescription is everything about a reservation.
type reservationDescription struct {
	reservationRow
	Namespace  string            `json:"namespace"`
	Priority   int               `json:"priority,omitempty"`
	Accumulate bool              `json:"accumulate,omitempty"`
	Lost       types.LostBundles `json:"lost,omitempty"`
	Session    string            `json:"session,omitempty"`
	Submitted  *time.Time        `json:"submitted,omitempty"`
	Why        *explained        `json:"why,omitempty"`
	// Drawing are the tasks that hold something of it.
	Drawing []taskRow `json:"drawing,omitempty"`

	now time.Time
}

// reservation describes a reservation.
func (d *describing) reservation(id cluster.ID) (description, error) {
	r := d.view.Reservations[id]
	if r == nil {
		return nil, gone(named{controlplane.Reservations, id.ID})
	}
	out := &reservationDescription{reservationRow: newReservationRow(id, r, d.now), Namespace: id.Namespace, now: d.now}
	if v := r.Info.V; v != nil {
		out.Priority, out.Accumulate, out.Session, out.Submitted = v.Priority, v.Accumulate, v.Session, moment(v.Submitted)
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
	out.Drawing = taskRows(d.view, id.Namespace, d.now, func(t taskRow) bool { return drawing[t.ID] })
	return out, nil
}

// write writes it as text.
func (r *reservationDescription) write(w io.Writer) error {
	s := newSheet(w)
	s.line("Reservation", r.ID)
	s.line("Namespace", r.Namespace)
	s.line("Phase", r.Phase)
	if r.Submitted != nil {
		s.line("Submitted", when(r.Submitted.UnixNano(), r.now))
	}
	if r.Priority != 0 {
		s.line("Priority", strconv.Itoa(r.Priority))
	}
	if r.Accumulate {
		s.line("Accumulates", "what becomes free, once it has waited")
	}
	if r.Lost == types.MoveBundles {
		s.line("Moves", "what is on a node that is lost, or drained")
	}
	s.line("Session", r.Session)
	s.group("Bundles")
	for i, b := range r.Bundles {
		text := needsText(b.Requests, b.Devices)
		switch {
		case i < len(r.Nodes) && r.Nodes[i] != "":
			text += " on " + r.Nodes[i]
		case b.Node != "":
			text += ", to be on " + b.Node
		}
		s.line("  "+strconv.Itoa(i+1), text)
	}
	if r.Why != nil {
		s.text("Why it waits", r.Why.lines(false))
	}
	s.text("Drawn on by", tasksText(r.Drawing, "escher ps -o wide"))
	return s.end()
}

// nodeDescription is everything about a node.
type nodeDescription struct {
	cluster.NodeState
	Address string    `json:"address,omitempty"`
	Ports   string    `json:"ports,omitempty"`
	Tasks   []taskRow `json:"tasks,omitempty"`
	// Others is how many tasks of other namespaces are there.
	Others int `json:"others,omitempty"`

	now time.Time
}

// node describes a node, with what the namespace sees of it.
func (d *describing) node(name string) (description, error) {
	state := d.view.Show(d.client.Namespace()).Node(name)
	n := d.view.Nodes[name]
	if state == nil || n == nil || n.Info.V == nil {
		return nil, gone(named{controlplane.Nodes, name})
	}
	out := &nodeDescription{NodeState: *state, Address: n.Info.V.Address, now: d.now}
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
	out.Tasks = taskRows(d.view, d.client.Namespace(), d.now, func(t taskRow) bool { return here[t.ID] })
	return out, nil
}

// drainText says how a node is drained, and how far that is.
func (n *nodeDescription) drainText() string {
	text := string(n.Drain)
	if n.DrainBy != nil {
		text += " until " + when(n.DrainBy.UnixNano(), n.now)
	}
	return fmt.Sprintf("%s: %d tasks left", text, len(n.Tasks)+n.Others)
}

// write writes it as text.
func (n *nodeDescription) write(w io.Writer) error {
	s := newSheet(w)
	s.line("Node", n.Name)
	phase := "alive"
	if !n.Alive {
		phase = "lost"
	}
	if n.Cordoned {
		phase += ", cordoned: nothing new is bound to it"
	}
	s.line("Phase", phase)
	s.line("Reason", n.Reason)
	if n.Drain != "" {
		s.line("Drain", n.drainText())
	}
	s.line("Version", n.Version)
	s.line("Address", n.Address)
	s.line("Ports", n.Ports)
	for _, l := range n.Labels {
		s.line("Label", l.Name+"="+l.Value)
	}
	s.group("Resources: in use of what there is")
	for _, a := range n.Resources {
		id := types.ResourceID(a.Name)
		s.line("  "+a.Name, a.Allocated.Format(id)+" of "+a.Capacity.Format(id))
	}
	s.text("Tasks", tasksText(n.Tasks, "escher ps"))
	if n.Others > 0 {
		s.text("Other namespaces", []string{fmt.Sprintf("%d tasks", n.Others)})
	}
	return s.end()
}
