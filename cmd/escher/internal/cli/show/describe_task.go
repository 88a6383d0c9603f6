package show

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/policy"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
	"github.com/escher-sched/escher/types/measured"
)

// taskDescription describes a task.
type taskDescription struct {
	TaskRow
	Namespace string `json:"namespace"`
	// Description is the task in the form of a file.
	Description manifest.Task `json:"task"`
	// Holds are what it holds on its node.
	Holds []string `json:"holds,omitempty"`
	// Policies are those of its job, with their parameters.
	Policies []manifest.Policy `json:"policies,omitempty"`
	// Estimates say where its requests come from, if a policy has set them.
	Estimates []string `json:"estimates,omitempty"`
	// Why explains where it is, above all why it waits.
	Why *reasons.Explained `json:"why,omitempty"`
	// Usage is its current usage, nil if it does not run, or if its node does not report it.
	Usage *measured.Task `json:"usage,omitempty"`
	// Events are the last events of the current attempt on its node.
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
		return nil, gone(cmdutil.Named{Kind: controlplane.Tasks, ID: id.ID})
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
		TaskRow: NewTaskRow(state, d.now), Namespace: id.Namespace,
		Description: manifest.FromSubmission(controlplane.Submission{Task: *t.Info.V.Full(), Spec: spec}),
		task:        t.Info.V.Full(), spec: spec, status: t.Status.V.Full(), now: d.now,
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
	if len(out.Policies) > 0 {
		if out.Estimates, err = reasons.Origins(ctx, d.client, id, out.Job, d.view.Revision, d.now); err != nil {
			return nil, err
		}
	}
	if out.Node != "" {
		out.Events = eventsOf(ctx, d.f, id, out.Node, out.Attempt)
		if out.Ending != "" {
			out.setGoneBy(out.Events, spec, d.now)
		}
	}
	if out.Phase == types.Running {
		out.Usage = d.usage(ctx, id, out.Node, out.Attempt)
	}
	return out, nil
}

// holding sets the holdings and ports of a binding.
func (t *taskDescription) holding(b *cluster.BindingValue, ns string) {
	for _, h := range b.Holds {
		t.Holds = append(t.Holds, render.HoldingText(h, ns))
	}
	t.Ports = t.spec.PortNumbers(b.Ports())
}

// Write writes it as text.
func (t *taskDescription) Write(w io.Writer) error {
	s := render.NewSheet(w)
	s.Line("Task", t.ID)
	s.Line("Name", t.Name)
	s.Line("Job", t.Job)
	s.Line("User", issued.Text(t.User))
	s.Line("Labels", types.LabelsText(t.task.Labels))
	for _, p := range t.Policies {
		s.Line("Policy", policy.PolicyWords(p))
	}
	s.Line("Namespace", t.Namespace)
	t.writeStatus(s)
	t.writeNeeds(s)
	t.writeSpec(s)
	t.writeUsage(s)
	if t.Why != nil {
		s.Text("Why it waits", t.Why.Sentences(false, howto.Say))
	}
	var events []string
	for _, e := range t.Events {
		events = append(events, fmt.Sprintf("%s  %s %s", e.At.UTC().Format("15:04:05.000"), e.Step, e.Text))
	}
	s.Text("Events of attempt "+strconv.Itoa(t.Attempt)+", the last ones", events)
	return s.End()
}

// writeStatus writes its status.
func (t *taskDescription) writeStatus(s *render.Sheet) {
	phase := render.PhaseText(t.Phase, t.Health)
	if t.Node != "" {
		phase += " on " + t.Node
	}
	if t.Attempt > 0 {
		phase += ", attempt " + strconv.Itoa(t.Attempt)
	}
	if exit := t.exit(); exit != "" {
		phase += ", exit code " + exit
	}
	s.Line("Phase", phase)
	s.Line("Reason", t.Reason)
	s.Line("Ending", t.Ending)
	if t.GoneBy != nil {
		s.Line("Gone by", render.When(t.GoneBy.UnixNano(), t.now))
	}
	if t.Restarts > 0 {
		s.Line("Restarts", strconv.Itoa(t.Restarts))
	}
	if t.Failures > 0 && t.task.Retries > 0 {
		s.Line("Failed attempts", fmt.Sprintf("%d of %d", t.Failures, 1+t.task.Retries))
	}
	s.Line("Submitted", render.When(t.task.Submitted, t.now))
	if t.status != nil {
		s.Line("Bound", render.When(t.status.Bound, t.now))
		s.Line("Started", render.When(t.status.Started, t.now))
		s.Line("Ended", render.When(t.status.Ended, t.now))
		s.Line("Used", usedText(t.status.Used))
		if t.status.Retry > t.now.UnixNano() {
			s.Line("Next attempt", render.When(t.status.Retry, t.now))
		}
	}
	s.Line("Deadline", render.When(t.task.Deadline, t.now))
	s.Lines("Holds", t.Holds)
	var ports []string
	for _, p := range t.spec.Ports {
		if n := t.Ports[p.Name]; n != 0 {
			ports = append(ports, fmt.Sprintf("%s %d (%s)", p.Name, n, p.Env()))
		}
	}
	s.Lines("Ports", ports)
}

// usedText returns what an attempt used that has ended; empty if that is not known.
func usedText(u types.Used) string {
	var parts []string
	if u.CPU > 0 {
		parts = append(parts, fmt.Sprintf("%.3g cores on average", float64(u.CPU)/1000))
	}
	if u.Memory > 0 {
		parts = append(parts, "at most "+render.BytesText(new(int64(u.Memory)))+" of memory")
	}
	return strings.Join(parts, ", ")
}

// writeNeeds writes its requests.
func (t *taskDescription) writeNeeds(s *render.Sheet) {
	s.Group("Needs")
	s.Line("  requests", cmdutil.First(render.RequestsText(t.task.Requests), "nothing"))
	s.Lines("  estimates", t.Estimates)
	s.Lines("  devices", render.DevicesText(t.task.Devices))
	if t.task.Accumulate {
		s.Line("  accumulates", "what becomes free, once it has waited")
	}
	for i, a := range t.task.Alternatives {
		text := cmdutil.First(render.RequestsText(a.Requests), "nothing more")
		if a.After > 0 {
			text += ", after " + a.After.String()
		}
		s.Line("  alternative "+strconv.Itoa(i+1), text)
	}
	for _, p := range t.task.Provides {
		s.Line("  provides", fmt.Sprintf("%s=%s when %s", p.Name, p.Amount.Format(types.ResourceID(p.Name)), p.When))
	}
	if t.task.Priority != 0 {
		s.Line("  priority", strconv.Itoa(t.task.Priority))
	}
	s.Line("  scheduler", t.task.Scheduler)
	s.Line("  on disconnect", string(t.task.OnDisconnect))
	s.Line("  may run", render.Duration(t.task.MaxRun))
	if t.task.Retries > 0 {
		s.Line("  retries", strconv.Itoa(t.task.Retries))
	}
	s.Line("  session", t.task.Session)
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

// writeSpec writes its spec.
func (t *taskDescription) writeSpec(s *render.Sheet) {
	s.Group("Runs")
	s.Line("  image", t.spec.Image)
	if t.Image != t.spec.Image {
		s.Line("  pinned", t.Image)
	}
	s.Line("  entry point", render.CommandText(t.spec.Entrypoint))
	s.Line("  command", render.CommandText(t.spec.Command))
	s.Lines("  env", t.spec.Env)
	s.Line("  directory", t.spec.Dir)
	if w := t.spec.Workdir; w != nil {
		s.Line("  workdir", w.Image+" at "+w.Target)
	}
	s.Line("  user", t.spec.User)
	s.Line("  input", inputText(t.spec))
	for _, m := range t.spec.Mounts {
		s.Line("  mount", render.MountText(m))
	}
	t.writeIsolation(s)
	s.Line("  restart", render.RestartText(t.spec.Restart))
	s.Line("  stop signal", t.spec.StopSignal)
	s.Line("  grace", controlplane.GraceOf(t.spec).String())
	t.writeHealth(s)
}

// inputText describes the input and the terminal of a task.
func inputText(spec *types.Spec) string {
	switch {
	case spec.Stdin && spec.TTY:
		return "of a client, by a terminal"
	case spec.Stdin:
		return "of a client"
	case spec.TTY:
		return "none, with a terminal"
	}
	return ""
}
