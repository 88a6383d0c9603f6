package run

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/flagset"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/backoff"
)

// runFlags describe a task.
type runFlags struct {
	name                    string
	labels                  labelFlags
	cpu, memory, gpu        string
	requests                []string
	alternatives            []string
	provides                []string
	reservation             string
	count, priority         int
	array                   string
	indices                 *manifest.Array
	onDisconnect, scheduler string
	maxRun                  time.Duration
	deadline                string
	accumulate              bool
	retries                 int
	image, binary           string
	detach                  bool
	gpus                    flagset.GpuChoice
	spec                    specFlags
	policies                PolicyFlags
}

func (r *runFlags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.binary, "binary", "", "run this static binary instead of an image; its arguments follow --")
	flags.StringVar(&r.name, "name", "", "a name; the id begins with it")
	r.labels.Add(flags, "l")
	flags.StringVar(&r.cpu, "cpu", "", "cores to hold, such as 2, 0.5 or 500m; also the limit")
	flags.StringVar(&r.memory, "memory", "", "memory to hold, such as 512Mi; also the limit")
	flags.StringVar(&r.gpu, "gpu", "", "GPUs of each task: 8, or 0.5 of one; see --gpu-model")
	r.gpus.Add(flags)
	flags.StringArrayVar(&r.requests, "request", nil, "name=amount of any other resource; repeat for several")
	flags.StringArrayVar(&r.alternatives, "alternative", nil, "name=amount,…[,after=3s]: one of these is requested too, the first that fits")
	flags.StringArrayVar(&r.provides, "provide", nil, "name=amount[@bound|running|healthy|succeeded]: resource that it adds to its node")
	flags.StringVar(&r.reservation, "reservation", "", "take cpu, memory and gpu from this reservation")
	flags.IntVar(&r.count, "count", 1, "number of tasks, as one job")
	flags.StringVar(&r.array, "array", "", "0-99, 1,3,5-7 or 0-90:10: a task for each index, as one job; 0-99%8 runs 8 of them at once")
	flags.IntVar(&r.priority, "priority", 0, "the highest comes first")
	flags.StringVar(&r.onDisconnect, "on-disconnect", types.Fence.String(), "when its node is cut off: fence ends it there and tries elsewhere, stop ends it for good, keep lets it run on")
	flags.StringVar(&r.scheduler, "scheduler", "", "name of the scheduler that places it")
	flags.DurationVar(&r.maxRun, "max-run", 0, "how long an attempt may run (default: no limit)")
	flags.IntVar(&r.retries, "retries", 0, fmt.Sprintf("number of attempts after failed ones, on any node, after a wait of %s that doubles up to %s",
		render.Shortly(backoff.First), render.Shortly(backoff.Max)))
	flags.StringVar(&r.deadline, "deadline", "", "time at which it fails if it has not ended, such as 2h from now, or 2026-01-02T15:04:05Z")
	flags.BoolVar(&r.accumulate, "accumulate", false, "after a long wait, collect free capacity on one node")
	flags.BoolVarP(&r.detach, "detach", "d", false, "print the ids, and leave the tasks running")
	cmdutil.Preset(flags, "max-run", "", "leave it out for no limit")
	r.spec.Add(cmd)
	r.policies.Add(flags)
	cmdutil.SetHeadings(cmd, policyFlags, runHeadings()...)
}

// split separates image and command. dash is the number of arguments before --, -1 without it.
// Inside a task the default image is the task's own.
func (r *runFlags) split(f *cmdutil.Factory, args []string, dash int) (command []string, err error) {
	switch {
	case r.binary != "" && len(args) > 0 && dash != 0:
		return nil, types.Errorf(types.Invalid, "IMAGE: %q is given together with --binary: drop one of them; arguments of the binary follow --", args[0])
	case r.binary != "":
		return args, nil
	case dash == 0 && f.InTask() && f.Getenv(tasksocket.EnvImage) != "":
		r.image = f.Getenv(tasksocket.EnvImage)
		return args, nil
	case len(args) == 0 || dash == 0:
		return nil, types.Errorf(types.Invalid, "IMAGE: is missing: name an image, or give --binary")
	}
	r.image = args[0]
	return args[1:], nil
}

// submissions makes the tasks.
func (r *runFlags) submissions(f *cmdutil.Factory, command []string) ([]controlplane.Submission, error) {
	if n, flag := r.policies.count(); n > 0 {
		if r.count != 1 && r.count != n {
			return nil, types.Errorf(types.Invalid, "count: %d tasks, and a %s of %d: give one of them", r.count, flag, n)
		}
		if n > manifest.MaxTasks {
			return nil, types.Errorf(types.Invalid, "%s: %d is out of range: give 1 to %d", flag, n, manifest.MaxTasks)
		}
		r.count = n
	}
	if r.indices != nil && r.count != 1 {
		return nil, types.Errorf(types.Invalid, "array: it says how many tasks there are: drop --count, or the policy that gives a count")
	}
	if r.count < 1 || r.count > manifest.MaxTasks {
		return nil, types.Errorf(types.Invalid, "count: %d is out of range: give 1 to %d, and submit more in several jobs", r.count, manifest.MaxTasks)
	}
	task, err := r.task()
	if err != nil {
		return nil, err
	}
	spec, err := r.spec.spec(f, r.image, command)
	if err != nil {
		return nil, err
	}
	task.Requests = spec.WithImplied(task.Requests)
	one := controlplane.Submission{Task: task, Spec: spec}
	if err := errors.Join(task.Validate(), task.ValidateMemory(spec), task.ValidateInput(spec)); err != nil || r.indices == nil {
		return slices.Repeat([]controlplane.Submission{one}, r.count), err
	}
	return r.indices.Submissions(one)
}

func (r *runFlags) task() (types.Task, error) {
	onDisconnect, err := types.ParseOnDisconnect(r.onDisconnect)
	if err != nil {
		return types.Task{}, err
	}
	task := types.Task{
		Name: r.name, Labels: r.labels, Priority: r.priority, OnDisconnect: onDisconnect, Scheduler: r.scheduler, MaxRun: r.maxRun, Accumulate: r.accumulate, Retries: r.retries,
	}
	physical, err := r.physical()
	if err != nil {
		return task, err
	}
	requests, err := cmdutil.ParseRequests("request", r.requests)
	if err != nil {
		return task, err
	}
	for _, x := range physical {
		if requests.Get(x.Name) > 0 {
			return task, types.Errorf(types.Invalid, "request: %s is given by a flag of its own too: give it once", x.Name)
		}
	}
	task.Requests = physical.Plus(requests)
	for _, text := range r.alternatives {
		a, err := cmdutil.ParseAlternative(text)
		if err != nil {
			return task, err
		}
		task.Alternatives = append(task.Alternatives, a)
	}
	vectors := []types.Requests{task.Requests}
	for _, a := range task.Alternatives {
		vectors = append(vectors, a.Requests)
	}
	if task.Devices, err = r.gpus.Of(vectors...); err != nil {
		return task, err
	}
	for _, text := range r.provides {
		p, err := cmdutil.ParseProvide(text)
		if err != nil {
			return task, err
		}
		task.Provides = append(task.Provides, p)
	}
	if task.Deadline, err = manifest.Deadline(r.deadline).At(time.Now()); err != nil {
		return task, types.Errorf(types.Invalid, "deadline: %w", err)
	}
	return task, task.Validate()
}

// physical returns the requests of flags such as --cpu.
func (r *runFlags) physical() (types.Requests, error) {
	suffix := ""
	if r.reservation != "" {
		if err := types.ValidateName("reservation", r.reservation); err != nil {
			return nil, err
		}
		suffix = "@" + r.reservation
	}
	texts := make(map[string]string)
	for id, text := range map[types.ResourceID]string{types.CPU: r.cpu, types.Memory: r.memory, types.GPU: r.gpu} {
		if text != "" {
			texts[string(id)+suffix] = text
		}
	}
	return types.MakeRequests(texts)
}

// interactive checks that a task with an input or a terminal is the only one, and that this command
// attaches to it.
func (r *runFlags) interactive(f *cmdutil.Factory, l launching) error {
	flag := "tty"
	switch {
	case r.spec.stdin:
		flag = "interactive"
	case !r.spec.tty:
		return nil
	}
	switch {
	case r.detach:
		return types.Errorf(types.Invalid, "%s: is given together with --detach, and a detached command passes no input: drop one of them", flag)
	case r.indices != nil:
		return types.Errorf(types.Invalid, "%s: is for one task, and there is an array: drop it, or --array", flag)
	case len(l.subs) != 1:
		return types.Errorf(types.Invalid, "%s: is for one task, and there are %d: drop it, or --count, and the policies that give a count", flag, len(l.subs))
	case f.InTask():
		return types.Errorf(types.Precondition, "%s: a task cannot attach to another: run it outside, or leave it out", flag)
	case r.spec.stdin && r.spec.tty:
		return f.InputIsTerminal()
	}
	return nil
}
