package simruntime

import (
	"context"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/runtime/attach"
)

// pipeBytes is how much of an input fits without a reader, as in a pipe.
const pipeBytes = 64 << 10

// Attach implements nodeagent.Runtime.
func (r *Runtime) Attach(ctx context.Context, id string, a nodeagent.Attachment) error {
	if err := r.mustRun(id); err != nil {
		return err
	}
	r.mu.Lock()
	k := r.containers[id]
	r.mu.Unlock()
	if k == nil {
		return missing("Attach", id)
	}
	p := attach.Process{
		Write:  func(ctx context.Context, data []byte) (int, error) { return r.writeInput(ctx, k, data) },
		End:    func() error { return r.endInput(k) },
		Resize: func(_ context.Context, size nodeagent.Size) { r.resize(k, size) },
	}
	if a.Stdin != nil {
		release, err := r.inputs.Take(id)
		if err != nil {
			return err
		}
		defer release()
		r.mu.Lock()
		p.Taken = k.taken
		r.mu.Unlock()
	}
	return attach.Run(ctx, a, p, k.ended)
}

// writeInput gives a process a part of its input, of which it may read nothing.
func (r *Runtime) writeInput(ctx context.Context, k *container, data []byte) (int, error) {
	r.mu.Lock()
	n := len(data)
	if !k.behaviour.Copy {
		n = int(min(int64(n), pipeBytes-k.taken))
	}
	k.taken += int64(n)
	r.mu.Unlock()
	if n == 0 {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if !k.behaviour.Copy || k.log == "" {
		return n, nil
	}
	return n, tasklog.Append(k.log, tasklog.Piece{Stream: tasklog.Stdout, Text: data[:n]})
}

// endInput ends the input of a process.
func (r *Runtime) endInput(k *container) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inputs.End(k.seen.ID)
	if k.behaviour.Copy {
		r.end(k, nodeagent.Exit{Code: k.behaviour.Code})
	}
	return nil
}

func (r *Runtime) resize(k *container, size nodeagent.Size) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k.size = size
}

// Size returns the size of the terminal of a container.
func (r *Runtime) Size(id string) nodeagent.Size {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.containers[id]; k != nil {
		return k.size
	}
	return nodeagent.Size{}
}
