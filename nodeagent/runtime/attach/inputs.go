package attach

import (
	"sync"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// Inputs are the inputs of the running processes of a runtime.
type Inputs struct {
	// Wait is how long an input waits for a client; 0 means nodeagent.AttachWait.
	Wait time.Duration

	mu   sync.Mutex
	held map[string]*input
}

// input is the input of a process.
type input struct {
	// end ends it, after no client has come.
	end func() error
	// timer calls end; nil while a client passes the input, while end is called, and after the end.
	timer *time.Timer
	// ended reports whether the input has ended, dropped whether it was removed.
	ended, dropped bool
}

// Hold adds the input of a running container, unless it is there. If no client takes it in time, it
// calls end, in a goroutine, and again after the same time if that fails.
func (i *Inputs) Hold(id string, end func() error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.held == nil {
		i.held = make(map[string]*input)
	}
	if i.held[id] == nil {
		i.held[id] = &input{end: end}
		i.await(i.held[id])
	}
}

// Holds reports whether the input of a container was added.
func (i *Inputs) Holds(id string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.held[id] != nil
}

// await waits for a client. The caller holds the lock.
func (i *Inputs) await(in *input) {
	wait := i.Wait
	if wait == 0 {
		wait = nodeagent.AttachWait
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		i.mu.Lock()
		late := in.timer == timer
		if late {
			in.timer = nil
		}
		i.mu.Unlock()
		if late {
			i.over(in, in.end())
		}
	})
	in.timer = timer
}

// over records the result of end.
func (i *Inputs) over(in *input, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil && !in.ended && !in.dropped {
		i.await(in)
		return
	}
	in.ended = true
}

// Take lets the caller pass the input of a container, until it calls release. Conflict: there is
// none, it has ended, or another caller has it.
func (i *Inputs) Take(id string) (release func(), err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	in := i.held[id]
	switch {
	case in == nil:
		return nil, types.Errorf(types.Conflict, "attach to container %s: it has no input: run the task with -i", id)
	case in.ended:
		return nil, types.Errorf(types.Conflict, "attach to container %s: its input has ended: run the task again", id)
	case in.timer == nil:
		return nil, types.Errorf(types.Conflict, "attach to container %s: another client passes its input: end that one first", id)
	}
	in.timer.Stop()
	in.timer = nil
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		if !in.ended && !in.dropped {
			i.await(in)
		}
	}, nil
}

// End marks the input of a container as ended.
func (i *Inputs) End(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if in := i.held[id]; in != nil {
		in.stop()
		in.ended = true
	}
}

// stop stops waiting for a client. The caller holds the lock.
func (in *input) stop() {
	if in.timer != nil {
		in.timer.Stop()
		in.timer = nil
	}
}

// Drop removes the input of a container.
func (i *Inputs) Drop(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if in := i.held[id]; in != nil {
		in.stop()
		in.dropped = true
		delete(i.held, id)
	}
}

// Close removes all inputs: another agent holds them.
func (i *Inputs) Close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for id, in := range i.held {
		in.stop()
		in.dropped = true
		delete(i.held, id)
	}
}
