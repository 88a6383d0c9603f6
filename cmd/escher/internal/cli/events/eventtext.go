package events

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// eventRow is a row of a list of events.
type eventRow struct {
	// Time is when; About means that the time is not exact, because only the order of events is
	// known.
	Time  time.Time `json:"time"`
	About bool      `json:"about,omitempty"`
	// Kind and ID name the object: a task, job, node, resource, reservation, policies, session or
	// the cluster.
	Kind string `json:"kind"`
	ID   string `json:"id,omitempty"`
	// Node is the node, if it matters.
	Node  string `json:"node,omitempty"`
	Event string `json:"event"`

	revision int64
}

// Header returns the columns.
func (eventRow) Header() []table.Column { return table.Columns("time", "kind", "id", "event") }

// Row returns the cells.
func (r eventRow) Row() []string { return []string{r.when(), r.Kind, r.ID, r.Event} }

// when formats the time, with ~ if it is not exact.
func (r eventRow) when() string {
	if r.Time.IsZero() {
		return "?"
	}
	text := r.Time.Local().Format(time.TimeOnly)
	if time.Since(r.Time) > 20*time.Hour {
		text = r.Time.Local().Format(time.DateTime)
	}
	if r.About {
		return "~" + text
	}
	return text
}

// Line is the row as a sentence.
func (r eventRow) Line() string {
	if r.ID == "" {
		return fmt.Sprintf("%s %s %s", r.when(), r.Kind, r.Event)
	}
	return fmt.Sprintf("%s %s %s %s", r.when(), r.Kind, r.ID, r.Event)
}

// eventReader makes rows of changes of the store, in order.
type eventReader struct {
	// ns is the namespace of tasks, resources and the like.
	ns string
	// statuses are those seen last, alive the alive nodes.
	statuses map[string]types.Status
	// collects are the tasks with a grant that collects.
	collects map[string]bool
	// labels selects tasks and jobs, and selected are those that it selects; nil means all.
	labels   *cmdutil.Selection
	selected map[object]bool
}

// object is a task or job.
type object struct{ kind, id string }

func newEventReader(ns string, labels *cmdutil.Selection) *eventReader {
	r := &eventReader{ns: ns, statuses: make(map[string]types.Status), collects: make(map[string]bool), labels: labels}
	if !labels.IsZero() {
		r.selected = make(map[object]bool)
	}
	return r
}

// choose notes whether a task or job is selected.
func (r *eventReader) choose(kind, id string, labels []types.Label) {
	if r.selected != nil && r.labels.Matches(labels) {
		r.selected[object{kind, id}] = true
	}
}

// read returns the row of a change, nil for a change without an event.
func (r *eventReader) read(e controlplane.Event) (*eventRow, error) {
	k, ok := controlplane.Parse(e.Key)
	if !ok || k.Namespace != "" && k.Namespace != r.ns {
		return nil, nil
	}
	row, err := r.row(k, e)
	if err != nil {
		row, err = &eventRow{Kind: string(k.Kind), ID: cmp.Or(k.ID, k.Name, k.Node), Node: k.Node, Event: "was given a value that cannot be read"}, nil
	}
	if row != nil {
		row.revision = e.ModRevision
	}
	return row, err
}

func (r *eventReader) row(k controlplane.Key, e controlplane.Event) (*eventRow, error) {
	created := e.CreateRevision == e.ModRevision
	switch k.Kind {
	case controlplane.Tasks:
		return r.task(k, e, created)
	case controlplane.Statuses:
		return r.Status(k, e)
	case controlplane.Jobs:
		return r.job(k, e, created)
	case controlplane.Alive:
		if e.Delete {
			return &eventRow{Kind: "node", ID: k.Node, Node: k.Node, Event: "is lost: its session has ended"}, nil
		}
		if created {
			return &eventRow{Kind: "node", ID: k.Node, Node: k.Node, Event: "has come"}, nil
		}
	case controlplane.Cordons:
		return cordon(k, e)
	case controlplane.Resources:
		return resource(k, e)
	case controlplane.Provided:
		return provided(k, e)
	case controlplane.Reservations:
		if e.Delete {
			return &eventRow{Kind: "reservation", ID: k.ID, Event: "given up"}, nil
		}
		if created {
			return &eventRow{Kind: "reservation", ID: k.ID, Event: "asked for"}, nil
		}
	case controlplane.Policies:
		return policies(k, e, created)
	case controlplane.Grants:
		return r.grant(k, e)
	case controlplane.Sessions:
		return session(k, e, created)
	case controlplane.System:
		return admission(k, e)
	case controlplane.Admissions:
		return namespaceAdmission(k, e)
	}
	return nil, nil
}

// unix converts Unix nanoseconds; 0 means none.
func unix(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

// because formats a reason as the end of a sentence.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func (r *eventReader) task(k controlplane.Key, e controlplane.Event, created bool) (*eventRow, error) {
	if e.Delete {
		return &eventRow{Kind: "task", ID: k.ID, Event: "removed"}, nil
	}
	var t types.Task
	if err := types.Decode(e.Value, &t); err != nil {
		return nil, err
	}
	r.choose("task", k.ID, t.Labels)
	switch {
	case created:
		return &eventRow{Kind: "task", ID: k.ID, Time: unix(t.Submitted), Event: "submitted"}, nil
	case t.Stop != nil:
		return &eventRow{Kind: "task", ID: k.ID, Event: "is to stop" + because(t.Stop.Reason)}, nil
	case t.Evict > 0:
		return &eventRow{Kind: "task", ID: k.ID, Event: fmt.Sprintf("is to leave its node, in attempt %d", t.Evict)}, nil
	}
	return nil, nil
}

// Status reads the status of a task.
func (r *eventReader) Status(k controlplane.Key, e controlplane.Event) (*eventRow, error) {
	if e.Delete {
		delete(r.statuses, k.ID)
		return nil, nil // its task is gone, too
	}
	var s types.Status
	if err := types.Decode(e.Value, &s); err != nil {
		return nil, err
	}
	was := r.statuses[k.ID]
	r.statuses[k.ID] = s
	row := StatusRow(k.ID, s)
	if was.Phase == s.Phase && was.Attempt == s.Attempt {
		// Only the problem of the same phase changed.
		row.Time = time.Time{}
		switch {
		case s.Restarts > was.Restarts:
			row.Event = fmt.Sprintf("runs again on %s%s", s.Node, because(s.Reason))
		case s.Health != was.Health && (s.Health == types.Healthy || s.Health == types.Unhealthy):
			row.Event = fmt.Sprintf("is %s on %s%s", s.Health, s.Node, because(s.Reason))
		case s.Reason == was.Reason || s.Reason == "":
			return nil, nil
		}
	}
	return row, nil
}

// StatusRow returns the row of a task with a new status.
func StatusRow(id string, s types.Status) *eventRow {
	row := &eventRow{Kind: "task", ID: id, Node: s.Node}
	attempt := ""
	if s.Attempt > 0 {
		attempt = fmt.Sprintf(" (attempt %d)", s.Attempt)
	}
	switch s.Phase {
	case types.Bound:
		row.Time, row.Event = unix(s.Bound), "bound to "+s.Node+attempt+because(s.Reason)
	case types.Running:
		row.Time, row.Event = unix(s.Started), "running on "+s.Node+attempt+because(s.Reason)
	case types.Pending:
		// Its last attempt ended then.
		row.Time, row.Event = unix(s.Ended), "waits again"+because(s.Reason)
	case types.Succeeded:
		row.Time, row.Event = unix(s.Ended), "succeeded"+attempt
	default:
		row.Time, row.Event = unix(s.Ended), string(s.Phase)+render.WithCode(&s)+attempt+because(s.Reason)
	}
	return row
}

// steps returns the past of a task in its status: when its last attempt was bound, started and
// ended.
func steps(id string, s types.Status) []eventRow {
	var rows []eventRow
	add := func(phase types.Phase, at int64) {
		if at != 0 {
			was := types.Status{Phase: phase, Node: s.Node, Attempt: s.Attempt, Bound: s.Bound, Started: s.Started}
			rows = append(rows, *StatusRow(id, was))
		}
	}
	add(types.Bound, s.Bound)
	add(types.Running, s.Started)
	if s.Phase.Ended() {
		rows = append(rows, *StatusRow(id, s))
	}
	return rows
}

func (r *eventReader) job(k controlplane.Key, e controlplane.Event, created bool) (*eventRow, error) {
	if e.Delete {
		return &eventRow{Kind: "job", ID: k.ID, Event: "removed"}, nil
	}
	var j types.Job
	if err := types.Decode(e.Value, &j); err != nil || !created {
		return nil, err
	}
	r.choose("job", k.ID, j.Labels)
	return &eventRow{Kind: "job", ID: k.ID, Event: "complete, with " + words.Count(j.Tasks, "task")}, nil
}

func cordon(k controlplane.Key, e controlplane.Event) (*eventRow, error) {
	row := &eventRow{Kind: "node", ID: k.Node, Node: k.Node, Event: "takes tasks again"}
	if e.Delete {
		return row, nil
	}
	var c types.Cordon
	if err := types.Decode(e.Value, &c); err != nil {
		return nil, err
	}
	row.Event = "takes no more tasks" + because(c.Reason)
	if c.Drain != types.DrainNone {
		row.Event = fmt.Sprintf("is drained (%s)", c.Drain) + because(c.Reason)
	}
	return row, nil
}

// whereText formats the place of a resource.
func whereText(where string) string {
	switch where {
	case types.EveryNode:
		return "every node"
	case types.ClusterWide:
		return "the cluster"
	}
	return where
}

func resource(k controlplane.Key, e controlplane.Event) (*eventRow, error) {
	row := &eventRow{Kind: "resource", ID: k.Name, Event: "removed from " + whereText(k.Where)}
	if k.Where != types.EveryNode && k.Where != types.ClusterWide {
		row.Node = k.Where
	}
	if e.Delete {
		return row, nil
	}
	var x types.Resource
	if err := types.Decode(e.Value, &x); err != nil {
		return nil, err
	}
	row.Event = fmt.Sprintf("is %s on %s", x.Capacity.Format(types.ResourceID(k.Name)), whereText(k.Where))
	if x.Owner != "" {
		row.Event += fmt.Sprintf(", until %s %s ends", x.Lifetime, x.Owner)
	}
	return row, nil
}

func provided(k controlplane.Key, e controlplane.Event) (*eventRow, error) {
	row := &eventRow{Kind: "resource", ID: k.Name, Node: k.Node, Event: "removed from " + k.Node}
	if e.Delete {
		return row, nil
	}
	var p types.Provided
	if err := types.Decode(e.Value, &p); err != nil {
		return nil, err
	}
	row.Event = fmt.Sprintf("is %s on %s, left by task %s", p.Amount.Format(types.ResourceID(k.Name)), k.Node, p.Task)
	return row, nil
}

func (r *eventReader) grant(k controlplane.Key, e controlplane.Event) (*eventRow, error) {
	row := &eventRow{Kind: "reservation", ID: k.ID, Event: "released"}
	if e.Delete && r.collects[k.ID] {
		delete(r.collects, k.ID)
		return nil, nil // bound or ended: the event of the task says so
	}
	if e.Delete {
		return row, nil
	}
	var g types.Grant
	if err := types.Decode(e.Value, &g); err != nil {
		return nil, err
	}
	if g.Task != 0 {
		r.collects[k.ID] = true
		return &eventRow{Kind: "task", ID: k.ID, Event: "collects what becomes free", Node: strings.Join(g.Bundles, ",")}, nil
	}
	row.Event = string(g.Phase)
	if len(g.Nodes) > 0 {
		row.Event += ", with " + words.Count(len(g.Nodes), "node")
	}
	return row, nil
}

func policies(k controlplane.Key, e controlplane.Event, created bool) (*eventRow, error) {
	row := &eventRow{Kind: "policies", ID: k.ID, Event: "no longer kept"}
	if e.Delete {
		return row, nil
	}
	var p types.Policies
	if err := types.Decode(e.Value, &p); err != nil {
		return nil, err
	}
	kinds := make([]string, len(p.Policies))
	for i, one := range p.Policies {
		kinds[i] = one.Kind
	}
	row.Event = "changed: " + strings.Join(kinds, ", ")
	if created {
		row.Event = strings.Join(kinds, ", ") + " to be kept"
	}
	return row, nil
}

func session(k controlplane.Key, e controlplane.Event, created bool) (*eventRow, error) {
	switch {
	case e.Delete:
		return &eventRow{Kind: "session", ID: k.ID, Event: "ended"}, nil
	case created:
		return &eventRow{Kind: "session", ID: k.ID, Event: "opened"}, nil
	}
	return nil, nil
}

// namespaceAdmission is the event of a namespace that is over its budget, or within it again.
func namespaceAdmission(k controlplane.Key, e controlplane.Event) (*eventRow, error) {
	row := &eventRow{Kind: "namespace", ID: k.Namespace, Event: "admits everything again"}
	if e.Delete {
		return row, nil
	}
	var a types.Admission
	if err := types.Decode(e.Value, &a); err != nil {
		return nil, err
	}
	row.Event = "admits nothing more" + because(a.Reason)
	return row, nil
}

func admission(k controlplane.Key, e controlplane.Event) (*eventRow, error) {
	if controlplane.AdmissionKey() != k.String() {
		return nil, nil
	}
	row := &eventRow{Kind: "cluster", Event: "admits new tasks again"}
	if e.Delete {
		return row, nil
	}
	var a types.Admission
	if err := types.Decode(e.Value, &a); err != nil {
		return nil, err
	}
	row.Event = "admits no new tasks" + because(a.Reason)
	return row, nil
}
