package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	signals "github.com/moby/sys/signal"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// settleEvery is the interval of checks whether a logger has ended.
const settleEvery = 5 * time.Millisecond

// Signal implements nodeagent.Runtime.
func (r *Runtime) Signal(ctx context.Context, id string, signal syscall.Signal) error {
	if signal == nodeagent.StopSignal {
		own, err := r.stopSignal(ctx, id)
		if err != nil {
			return classify(err, "ask container %s to end", id)
		}
		signal = own
	}
	_, err := r.client.TaskService().Kill(ctx, &tasks.KillRequest{ContainerID: id, Signal: uint32(signal)})
	err = native(err)
	if err == nil {
		return nil
	}
	if !errdefs.IsNotFound(err) {
		return classify(err, "send %s to container %s", signal, id)
	}
	// There is no process: it has ended, or there is no container.
	if _, err := r.client.ContainerService().Get(ctx, id); err != nil {
		return classify(err, "send %s to container %s", signal, id)
	}
	return nil
}

// stopSignal returns the signal that asks a container's process to end.
func (r *Runtime) stopSignal(ctx context.Context, id string) (syscall.Signal, error) {
	record, err := r.client.ContainerService().Get(ctx, id)
	if err != nil {
		return 0, err
	}
	own, err := signals.ParseSignal(record.Labels[client.StopSignalLabel])
	if err != nil { // It was made by a version without stop signals.
		return syscall.SIGTERM, nil
	}
	return own, nil
}

// Remove implements nodeagent.Runtime.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	release, err := r.locks.acquire(ctx, id)
	if err != nil {
		return classify(err, "remove container %s", id)
	}
	defer release()
	return r.remove(ctx, id)
}

// remove deletes everything from the process to the record: while anything is left, the record
// stays.
func (r *Runtime) remove(ctx context.Context, id string) error {
	r.inputs.Drop(id)
	if !r.outputs.named(id) {
		r.outputs.release(id) // Later output is not needed.
	}
	if err := r.removeTask(ctx, id); err != nil {
		return classify(err, "remove the task of container %s", id)
	}
	r.dropPipes(ctx, id)
	for _, key := range []string{id, workdirKey(id)} {
		err := r.client.SnapshotService(snapshotter).Remove(ctx, key)
		if err != nil && !errdefs.IsNotFound(err) {
			return classify(err, "remove the file system %s", key)
		}
	}
	err := r.client.ContainerService().Delete(ctx, id)
	if err != nil && !errdefs.IsNotFound(err) {
		return classify(err, "remove container %s", id)
	}
	r.peaks.forget(id)
	return nil
}

// dropPipes removes the named pipes of a container without a process, if it has any. It first waits
// a limited time for the end of the log.
func (r *Runtime) dropPipes(ctx context.Context, id string) {
	dir := r.pipesDir(id)
	if _, err := os.Stat(dir); err == nil {
		limit, cancel := context.WithTimeout(ctx, outputWait)
		defer cancel()
		tick := time.NewTicker(settleEvery)
		defer tick.Stop()
		for !r.outputs.written(id) && limit.Err() == nil {
			select {
			case <-tick.C:
			case <-limit.Done():
			}
		}
	}
	r.outputs.release(id)
	_ = os.RemoveAll(dir) // They are empty, and in memory.
}

// removeTask first deletes the task, which usually has ended. containerd's error for a running
// process has no class: so after any error it kills the process.
func (r *Runtime) removeTask(ctx context.Context, id string) error {
	service := r.client.TaskService()
	_, err := service.Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
	err = native(err)
	if errdefs.IsNotFound(err) {
		return r.forget(ctx, id)
	}
	if err == nil {
		return nil
	}
	_, err = service.Kill(ctx, &tasks.KillRequest{ContainerID: id, Signal: uint32(syscall.SIGKILL), All: true})
	if err = native(err); err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	_, err = service.Wait(ctx, &tasks.WaitRequest{ContainerID: id})
	if err = native(err); err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	_, err = service.Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
	if err = native(err); err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	return nil
}

// dropSocket removes the socket of a killed shim, which did not remove it. Its name is derived as
// in shims.
func (r *Runtime) dropSocket(id string) error {
	name := sha256.Sum256([]byte(filepath.Join(r.conf.Address, r.conf.Namespace, id)))
	err := os.Remove(filepath.Join("/run/containerd/s", hex.EncodeToString(name[:])))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// errRemoved is the error for missing containers.
func errRemoved(id string) error {
	return types.Errorf(types.NotFound, "find container %s: there is none", id)
}
