package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	sampled "github.com/escher-sched/escher/nodeagent/machine/usage"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// taskDescription is everything about a task.
type taskDescription struct {
	taskRow
	Namespace string `json:"namespace"`
	// Stopping says that it is to end, and why.
	Stopping string `json:"stopping,omitempty"`
	// Description is the task as a file describes it.
	Description manifest.Task `json:"task"`
	// Ports are the numbers that it was given, by name.
	Ports map[string]int `json:"ports,omitempty"`
	// Holds are what it holds on its node.
	Holds []string `json:"holds,omitempty"`
	// Policies are what the tasks of its job keep to, with their parameters.
	Policies []manifest.Policy `json:"policies,omitempty"`
	// Why says where it is, above all why it waits.
	Why *explained `json:"why,omitempty"`
	// Usage is what it uses, nil if it does not run, or its node does not tell.
	Usage *sampled.Task `json:"usage,omitempty"`
	// Events are what happened to the present attempt last, as its node tells.
	Events []nodeapi.Event `json:"events,omitempty"`

	task   *types.Task
	spec   *types.Spec
	status *types.Status
	now    time.Time
}

// task describes a task.
func (d *describing) task(ctx context.Context, id cluster.ID) (description, error) {
	t := d.view.Task(id)
	if t == nil || t.Info.V == nil {
		return nil, gone(named{controlplane.Tasks, id.ID})
	}
	spec, err := d.client.Spec(ctx, t.Info.V.Spec)
	if err != nil {
		return nil, err
	}
	if !d.env {
		spec = withoutValues(spec)
	}
	state := controlplane.TaskState{ID: id.ID, Task: t.Info.V.Full(), Status: t.Status.V.Full(), Accepted: d.view.Visible(t)}
	out := &taskDescription{
		taskRow: newTaskRow(state, d.now), Namespace: id.Namespace,
		Description: manifest.FromSubmission(controlplane.Submission{Task: *t.Info.V.Full(), Spec: spec}),
		task:        t.Info.V.Full(), spec: spec, status: t.Status.V.Full(), now: d.now,
	}
	if s := t.Info.V.Stop; s != nil && !out.Phase.Ended() {
		out.Stopping = first(s.Reason, "it was stopped")
	}
	if len(t.Bindings) > 0 {
		out.holding(t.Bindings[0].Info.V, id.Namespace)
	}
	if out.Phase == types.Pending {
		out.Why = &d.why
	}
	if out.Policies, err = d.policiesKept(ctx, out.Job); err != nil {
		return nil, err
	}
	if out.Node != "" {
		out.Events = d.events(ctx, id, out.Node, out.Attempt)
	}
	if out.Phase == types.Running {
		out.Usage = d.usage(ctx, id, out.Node, out.Attempt)
	}
	return out, nil
}

// holding notes what a binding holds, and which ports.
func (t *taskDescription) holding(b *cluster.BindingValue, ns string) {
	for _, h := range b.Holds {
		t.Holds = append(t.Holds, holdingText(h, ns))
	}
	t.Ports = make(map[string]int)
	given := b.Ports()
	for _, p := range t.spec.Ports {
		number := p.Number
		if number == 0 && len(given) > 0 {
			number, given = given[0], given[1:]
		}
		t.Ports[p.Name] = number
	}
}

// events are what happened last to an attempt, none if its node does not tell soon.
func (d *describing) events(ctx context.Context, id cluster.ID, node string, attempt int) []nodeapi.Event {
	const soon, most = 2 * time.Second, 10
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	var all []nodeapi.Event
	err := d.f.onNode(ctx, node, func(c *nodeapi.Client) error {
		return c.Events(ctx, id.Namespace, id.ID, attempt, 0, false, func(e nodeapi.Event) error {
			all = append(all, e)
			return nil
		})
	})
	if err != nil {
		return nil
	}
	return all[max(0, len(all)-most):]
}

// write writes it as text.
func (t *taskDescription) write(w io.Writer) error {
	s := newSheet(w)
	s.line("Task", t.ID)
	s.line("Name", t.Name)
	s.line("Job", t.Job)
	for _, p := range t.Policies {
		s.line("Policy", policyWords(p))
	}
	s.line("Namespace", t.Namespace)
	t.writeStatus(s)
	t.writeNeeds(s)
	t.writeSpec(s)
	t.writeUsage(s)
	if t.Why != nil {
		s.text("Why it waits", t.Why.lines(false))
	}
	var events []string
	for _, e := range t.Events {
		events = append(events, fmt.Sprintf("%s  %s %s", e.At.UTC().Format("15:04:05.000"), e.Step, e.Text))
	}
	s.text("Events of attempt "+strconv.Itoa(t.Attempt)+", the last ones", events)
	return s.end()
}

// writeStatus writes how far it is.
func (t *taskDescription) writeStatus(s *sheet) {
	phase := phaseText(t.Phase, t.Health)
	if t.Node != "" {
		phase += " on " + t.Node
	}
	if t.Attempt > 0 {
		phase += ", attempt " + strconv.Itoa(t.Attempt)
	}
	if exit := t.exit(); exit != "" {
		phase += ", exit code " + exit
	}
	s.line("Phase", phase)
	s.line("Reason", t.Reason)
	s.line("Stopping", t.Stopping)
	if t.Restarts > 0 {
		s.line("Restarts", strconv.Itoa(t.Restarts))
	}
	if t.Failures > 0 && t.task.Retries > 0 {
		s.line("Failed attempts", fmt.Sprintf("%d of %d", t.Failures, 1+t.task.Retries))
	}
	s.line("Submitted", when(t.task.Submitted, t.now))
	if t.status != nil {
		s.line("Bound", when(t.status.Bound, t.now))
		s.line("Started", when(t.status.Started, t.now))
		s.line("Ended", when(t.status.Ended, t.now))
		if t.status.Retry > t.now.UnixNano() {
			s.line("Next attempt", when(t.status.Retry, t.now))
		}
	}
	s.line("Deadline", when(t.task.Deadline, t.now))
	s.lines("Holds", t.Holds)
	var ports []string
	for _, p := range t.spec.Ports {
		if n := t.Ports[p.Name]; n != 0 {
			ports = append(ports, fmt.Sprintf("%s %d (%s)", p.Name, n, p.Env()))
		}
	}
	s.lines("Ports", ports)
}

// writeNeeds writes what it asks for.
func (t *taskDescription) writeNeeds(s *sheet) {
	s.group("Needs")
	s.line("  requests", first(requestsText(t.task.Requests), "nothing"))
	s.lines("  devices", devicesText(t.task.Devices))
	if t.task.Accumulate {
		s.line("  accumulates", "what becomes free, once it has waited")
	}
	for i, a := range t.task.Alternatives {
		text := first(requestsText(a.Requests), "nothing more")
		if a.After > 0 {
			text += ", after " + a.After.String()
		}
		s.line("  alternative "+strconv.Itoa(i+1), text)
	}
	for _, p := range t.task.Provides {
		s.line("  provides", fmt.Sprintf("%s=%s when %s", p.Name, p.Amount.Format(types.ResourceID(p.Name)), p.When))
	}
	if t.task.Priority != 0 {
		s.line("  priority", strconv.Itoa(t.task.Priority))
	}
	s.line("  scheduler", t.task.Scheduler)
	s.line("  on disconnect", string(t.task.OnDisconnect))
	s.line("  may run", duration(t.task.MaxRun))
	if t.task.Retries > 0 {
		s.line("  retries", strconv.Itoa(t.task.Retries))
	}
	s.line("  session", t.task.Session)
}

// withoutValues returns a spec without the values of its environment variables.
func withoutValues(spec *types.Spec) *types.Spec {
	masked := *spec
	masked.Env = make([]string, len(spec.Env))
	for i, variable := range spec.Env {
		name, _, _ := strings.Cut(variable, "=")
		masked.Env[i] = name + "=…"
	}
	return &masked
}

// writeSpec writes what it runs.
func (t *taskDescription) writeSpec(s *sheet) {
	s.group("Runs")
	s.line("  image", t.spec.Image)
	if t.Image != t.spec.Image {
		s.line("  pinned", t.Image)
	}
	s.line("  command", commandText(t.spec.Command))
	s.lines("  env", t.spec.Env)
	s.line("  directory", t.spec.Dir)
	s.line("  user", t.spec.User)
	for _, m := range t.spec.Mounts {
		s.line("  mount", mountText(m))
	}
	t.writeIsolation(s)
	s.line("  restart", restartText(t.spec.Restart))
	s.line("  stop signal", t.spec.StopSignal)
	s.line("  grace", controlplane.GraceOf(t.spec).String())
	t.writeHealth(s)
}
