package containerd

import (
	"context"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/errdefs"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// lostCode is the exit code of a lost process: that of SIGKILL, which containerd sends when a shim
// dies.
const lostCode = 137

// lostWait limits the kill of processes that a lost shim left. The next call tries again.
const lostWait = 2 * time.Second

// List implements nodeagent.Runtime.
func (r *Runtime) List(ctx context.Context) ([]nodeagent.Observed, error) {
	records, err := r.client.ContainerService().List(ctx, ours(r.conf.Cluster, r.conf.Node))
	if err != nil {
		return nil, classify(err, "list containers")
	}
	if len(records) == 0 {
		return nil, nil
	}
	listed, err := r.client.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return nil, classify(native(err), "list tasks")
	}
	processes := make(map[string]*task.Process, len(listed.Tasks))
	for _, p := range listed.Tasks {
		processes[p.ID] = p
	}
	all := make([]nodeagent.Observed, 0, len(records))
	for _, record := range records {
		if _, err := attemptOf(record.Labels); err != nil {
			continue // It has our label, and is not ours.
		}
		seen, err := r.observe(ctx, record, processes[record.ID])
		if types.Is(err, types.NotFound) {
			continue // It was removed meanwhile.
		}
		if err != nil {
			return nil, err
		}
		all = append(all, seen)
	}
	return all, nil
}

// observe combines a record and its process; a nil process means that containerd listed none.
func (r *Runtime) observe(ctx context.Context, record containers.Container, p *task.Process) (nodeagent.Observed, error) {
	attempt, err := attemptOf(record.Labels)
	if err != nil {
		return nodeagent.Observed{}, classify(err, "list container %s", record.ID)
	}
	seen := nodeagent.Observed{
		ID: record.ID, Attempt: attempt, Restart: restartOf(record.Labels), Image: record.Labels[labelImage],
		Check: checkOf(record.Labels), Devices: devicesOf(record.Labels), Started: timeOf(record.Labels, labelStarted),
	}
	switch {
	case record.Labels[labelStarted] == "":
		// The process never ran, whatever containerd has. An end that it reports is that of an
		// interrupted start.
		return seen, nil
	case p == nil:
		seen.Exit, err = r.lost(ctx, record.ID)
		if types.Is(err, types.Unavailable) {
			err = nil // Not known to have ended.
		}
		seen.Running = err == nil && seen.Exit == nil
		return seen, err
	case p.Status == task.Status_CREATED && beforeStart(p.Pid):
		return seen, nil
	case p.Status == task.Status_STOPPED:
		exit := r.exit(ctx, record.ID, p.ExitStatus, p.ExitedAt.AsTime())
		seen.Exit = &exit
		return seen, nil
	}
	seen.Running = true
	if record.Labels[labelInput] != "" && !r.inputs.Holds(record.ID) {
		r.holdInput(record.ID)
	}
	if identity := record.Labels[labelOutput]; identity != "" && !r.outputs.holds(record.ID) {
		// An earlier agent started it.
		r.outputs.hold(record.ID, r.find(record.ID, p.Pid, identity), r.logOf(record.Labels[labelLog]))
	}
	return seen, nil
}

// Wait implements nodeagent.Runtime.
func (r *Runtime) Wait(ctx context.Context, id string) (nodeagent.Exit, error) {
	ended, err := r.client.TaskService().Wait(ctx, &tasks.WaitRequest{ContainerID: id})
	err = native(err)
	if err == nil {
		return r.exit(ctx, id, ended.ExitStatus, ended.ExitedAt.AsTime()), nil
	}
	if !errdefs.IsNotFound(err) {
		return nodeagent.Exit{}, classify(err, "wait for container %s", id)
	}
	exit, err := r.lost(ctx, id)
	if err != nil {
		return nodeagent.Exit{}, err
	}
	return *exit, nil
}

// lost returns the exit of a container without a task: it has ended, and the cause is unknown. It
// stores the time, so that the answer stays the same. NotFound: there is no container. Unavailable:
// it is not certain.
func (r *Runtime) lost(ctx context.Context, id string) (*nodeagent.Exit, error) {
	release, err := r.locks.acquire(ctx, id)
	if err != nil {
		return nil, classify(err, "look for container %s", id)
	}
	defer release()
	record, err := r.client.ContainerService().Get(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil, errRemoved(id)
	}
	if err != nil {
		return nil, classify(err, "look for container %s", id)
	}
	_, err = r.client.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: id})
	if !errdefs.IsNotFound(native(err)) {
		return nil, types.Errorf(types.Unavailable, "look for the task of container %s: its state is not known: %w", id, native(err))
	}
	if record.Labels[labelStarted] == "" {
		return nil, types.Errorf(types.Unavailable, "look for the task of container %s: it is not started yet", id)
	}
	// containerd kills processes without a shim. If that failed, the container has not ended,
	// whatever containerd reports. A process that hangs in the kernel may not end for days: do not
	// hold the lock that long.
	limit, cancel := context.WithTimeout(ctx, lostWait)
	defer cancel()
	if err := r.killLeft(limit, id); err != nil {
		return nil, err
	}
	at := timeOf(record.Labels, labelLost)
	if at.IsZero() {
		at = time.Now().UTC()
		if err := r.label(ctx, id, map[string]string{labelLost: formatTime(at)}); err != nil {
			return nil, classify(err, "mark container %s as lost", id)
		}
	}
	return &nodeagent.Exit{
		Code: lostCode, At: at, Lost: true,
		Reason: "not known how it ended: containerd's shim was killed, or the machine restarted",
	}, nil
}
