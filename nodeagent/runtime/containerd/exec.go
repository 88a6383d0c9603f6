package containerd

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"
	"github.com/google/uuid"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/attach"
	"github.com/escher-sched/escher/types"
)

// outputWait is how long output may still arrive after a process has ended: a process that it left
// behind may hold the pipe open forever.
const outputWait = 2 * time.Second

// execWait limits how long runc may take to start another process in a container.
const execWait = time.Minute

// killWait is how long a killed process may take to end. One that hangs in the kernel does not end.
const killWait = 3 * time.Second

// Exec implements nodeagent.Runtime. It does not wait for a Read of p.Stdin that is under way when
// the process ends. Processes that the process started and left run on.
func (r *Runtime) Exec(ctx context.Context, id string, p nodeagent.Process) (int, error) {
	if len(p.Command) == 0 {
		return 0, types.Errorf(types.Invalid, "run a command in container %s: there is none; name one", id)
	}
	if _, err := r.runs(ctx, id, "run a command in"); err != nil {
		return 0, err
	}
	loaded, err := r.client.LoadContainer(ctx, id)
	if err != nil {
		return 0, classify(err, "run a command in container %s", id)
	}
	spec, err := r.execSpec(ctx, loaded, p)
	if err != nil {
		return 0, err
	}
	running, err := loaded.Task(ctx, nil)
	if err != nil {
		return 0, classify(err, "run a command in container %s", id)
	}
	if err := r.unended.refuse(id); err != nil {
		return 0, err
	}
	stdin := &input{from: p.Stdin, end: make(chan struct{})}
	process, err := running.Exec(ctx, "exec-"+uuid.NewString(), spec, r.streams(p, stdin))
	if err != nil {
		return 0, classify(err, "run a command in container %s", id)
	}
	code, ended, err := follow(ctx, id, process, p, stdin)
	if err == nil {
		await(process.IO())
	}
	if !ended {
		r.unended.drop(ctx, id, process)
		return code, err
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanWait)
	defer cancel()
	drop(clean, process)
	return code, err
}

// runs returns the process of a running container. what describes the action. Precondition: the
// container does not run. NotFound: there is no such container.
func (r *Runtime) runs(ctx context.Context, id, what string) (*task.Process, error) {
	got, err := r.client.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: id})
	err = native(err)
	if err == nil && got.Process.Status == task.Status_RUNNING {
		return got.Process, nil
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return nil, classify(err, "%s container %s", what, id)
	}
	if err != nil {
		if _, err := r.client.ContainerService().Get(ctx, id); err != nil {
			return nil, classify(err, "%s container %s", what, id)
		}
	}
	return nil, types.Errorf(types.Precondition, "%s container %s: it does not run", what, id)
}

// execSpec returns the setup of the process: that of the container, changed as p requests.
func (r *Runtime) execSpec(ctx context.Context, loaded client.Container, p nodeagent.Process) (*specs.Process, error) {
	ctx = namespaces.WithNamespace(ctx, r.conf.Namespace)
	record, err := loaded.Info(ctx)
	if err != nil {
		return nil, classify(err, "run a command in container %s", loaded.ID())
	}
	spec := new(oci.Spec)
	if err := typeurl.UnmarshalTo(record.Spec, spec); err != nil {
		return nil, types.Errorf(types.Internal, "read how container %s is set up: %w", loaded.ID(), err)
	}
	opts := []oci.SpecOpts{oci.WithProcessArgs(p.Command...)}
	if p.TTY && !slices.ContainsFunc(p.Env, func(v string) bool { return strings.HasPrefix(v, "TERM=") }) {
		opts = append(opts, oci.WithEnv([]string{"TERM=xterm"}))
	}
	opts = append(opts, oci.WithEnv(p.Env))
	if p.Dir != "" {
		opts = append(opts, oci.WithProcessCwd(p.Dir))
	}
	if p.User != "" {
		root, err := r.Root(ctx, record.ID)
		if err != nil {
			return nil, err
		}
		opts = append(opts, amongUsers(root, withUser(p.User)))
	}
	if err := oci.ApplyOpts(ctx, r.client, &containers.Container{ID: record.ID}, spec, opts...); err != nil {
		return nil, classify(err, "run a command in container %s", record.ID)
	}
	spec.Process.Terminal = p.TTY
	select {
	case size := <-p.Resize: // the initial size
		spec.Process.ConsoleSize = &specs.Box{Width: uint(size.Width), Height: uint(size.Height)}
	default:
	}
	return spec.Process, nil
}

// streams returns the transport of input and output: pipes in a directory that is removed with the
// process.
func (r *Runtime) streams(p nodeagent.Process, stdin *input) cio.Creator {
	var in io.Reader
	if p.Stdin != nil {
		in = stdin
	}
	opts := []cio.Opt{
		cio.WithStreams(in, or(p.Stdout), or(p.Stderr)),
		cio.WithFIFODir(filepath.Join(filepath.Dir(r.conf.Address), "fifo")),
	}
	if p.TTY {
		opts = append(opts, cio.WithTerminal)
	}
	return cio.NewCreator(opts...)
}

// or returns w; io.Discard if it is nil.
func or(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// input is the input of a process. end is closed at its end, which containerd must learn.
type input struct {
	from io.Reader
	end  chan struct{}
}

func (i *input) Read(into []byte) (int, error) {
	n, err := i.from.Read(into)
	if err != nil {
		close(i.end)
	}
	return n, err
}

// follow starts the process and waits for its end. When ctx is done, it kills the process; over is
// false if the process does not end within killWait.
func follow(ctx context.Context, id string, process client.Process, p nodeagent.Process, stdin *input) (code int, over bool, err error) {
	// The end of a started process must be seen, even after ctx is done.
	after, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended, err := process.Wait(after)
	if err != nil {
		return 0, true, classify(err, "run a command in container %s", id)
	}
	// A start that is canceled half-way would go on, and nothing would kill its process.
	begun, release := context.WithTimeout(after, execWait)
	defer release()
	if err := process.Start(begun); err != nil {
		return 0, true, notExecuted(err, id)
	}
	if p.Started != nil {
		p.Started()
	}
	resize, eof := p.Resize, stdin.end
	for {
		select {
		case exit := <-ended:
			code, err := result(ctx, id, exit)
			return code, true, err
		case <-ctx.Done():
			return kill(ctx, id, process, ended)
		case size, ok := <-resize:
			if !ok {
				resize = nil
				continue
			}
			_ = process.Resize(after, uint32(size.Width), uint32(size.Height)) // best effort
		case <-eof:
			eof = nil
			_ = process.CloseIO(after, client.WithStdinCloser) // it may have ended
		}
	}
}

// kill kills the process, and returns the same results as follow.
func kill(ctx context.Context, id string, process client.Process, ended <-chan client.ExitStatus) (code int, over bool, err error) {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), killWait)
	defer cancel()
	killGroup(process.Pid())
	if err := process.Kill(limit, syscall.SIGKILL); err != nil && !errdefs.IsNotFound(err) {
		return 0, false, classify(err, "kill a command in container %s", id)
	}
	select {
	case exit := <-ended:
		code, err := result(ctx, id, exit)
		return code, true, err
	case <-limit.Done():
		return 0, false, classify(ctx.Err(), "kill a command in container %s: it does not end", id)
	}
}

// killGroup kills a process that has not ended as far as known, and its process group: runc makes
// it the leader of its own group. Processes that left the group run on.
func killGroup(pid uint32) {
	if pid > 1 {
		_ = syscall.Kill(-int(pid), syscall.SIGKILL) // it may have ended
	}
}

func result(ctx context.Context, id string, exit client.ExitStatus) (int, error) {
	code, _, err := exit.Result()
	if err != nil {
		return 0, classify(native(err), "wait for a command in container %s", id)
	}
	if ctx.Err() != nil {
		return int(code), classify(ctx.Err(), "run a command in container %s", id)
	}
	return int(code), nil
}

// notExecuted classifies a failure to start a command in a running container.
func notExecuted(err error, id string) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return classify(err, "run a command in container %s", id)
	}
	if never := impossible(err, "run a command in container "+id); never != nil {
		return never
	}
	return types.Errorf(types.Unavailable, "run a command in container %s: %w", id, err)
}

// await waits until all output has arrived.
func await(streams cio.IO) {
	late := time.AfterFunc(outputWait, streams.Cancel)
	defer late.Stop()
	streams.Wait()
}

// drop removes the process from containerd, and kills it if it has not ended.
func drop(ctx context.Context, process client.Process) {
	streams := process.IO()
	streams.Cancel()
	if _, err := process.Delete(ctx, client.WithProcessKill); err != nil {
		// Only a record in the shim is left, which ends with the container.
		streams.Wait()
		_ = streams.Close()
	}
}

// Attach implements nodeagent.Runtime.
func (r *Runtime) Attach(ctx context.Context, id string, a nodeagent.Attachment) error {
	if _, err := r.runs(ctx, id, "attach to"); err != nil {
		return err
	}
	p := attach.Process{Resize: func(ctx context.Context, size nodeagent.Size) {
		// Best effort: without a terminal, there is nothing to do.
		_, _ = r.client.TaskService().ResizePty(ctx, &tasks.ResizePtyRequest{ContainerID: id, Width: uint32(size.Width), Height: uint32(size.Height)})
	}}
	if a.Stdin != nil {
		release, err := r.inputs.Take(id)
		if err != nil {
			return err
		}
		defer release()
		in, err := attach.OpenInput(r.pipesDir(id))
		if types.Is(err, types.Conflict) {
			_ = r.endInput(id) // Otherwise it ends without a client.
		}
		if err != nil {
			return err
		}
		closing := sync.OnceValue(in.Close)
		defer func() { _ = closing() }() // what was written is recorded
		p.Taken, p.Write = in.Taken(), in.Write
		p.End = func() error { return errors.Join(closing(), r.endInput(id)) }
	}
	ended := make(chan struct{})
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		if _, err := r.Wait(watch, id); err == nil || types.Is(err, types.NotFound) {
			close(ended)
		}
	}()
	return attach.Run(ctx, a, p, ended)
}

// holdInput ends the input of a container if no client passes it in time.
func (r *Runtime) holdInput(id string) {
	r.inputs.Hold(id, func() error { return r.endInput(id) })
	if !attach.HasInput(r.pipesDir(id)) {
		r.inputs.End(id)
	}
}

// endInput ends the input of a container's process.
func (r *Runtime) endInput(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanWait)
	defer cancel()
	_, err := r.client.TaskService().CloseIO(ctx, &tasks.CloseIORequest{ContainerID: id, Stdin: true})
	if err = native(err); err != nil && !errdefs.IsNotFound(err) {
		return classify(err, "end the input of container %s", id)
	}
	r.inputs.End(id)
	attach.EndInput(r.pipesDir(id))
	return nil
}
