package tasksocket

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

const (
	// defaultHold is how long a task holds a unit at most, and longestHold the most that it may ask for:
	// a task that hangs keeps the others waiting for so long.
	defaultHold, longestHold = 10 * time.Second, 10 * time.Minute
	// sizeFor is how long the capacity of a resource is reused after it was read.
	sizeFor = time.Second
)

// Holds are the units of ephemeral resources that running tasks of a node hold for a while, in turn. Of
// each resource, as many are held at once as its capacity on the node says. They are in memory alone: a
// task takes and returns units many times a second, and loses them with its connection.
type Holds struct {
	mu    sync.Mutex
	lines map[types.ResourceID]*line
}

// line is one resource: its units, and the tasks that wait for one, in order.
type line struct {
	size, held int
	read       time.Time
	waiting    []chan struct{}
}

// NewHolds makes the holds of one node.
func NewHolds() *Holds { return &Holds{lines: make(map[types.ResourceID]*line)} }

// Take waits for a unit of a resource, behind those that wait already; release returns it. size reads
// how many units there are. Errors are those of size and of ctx.
func (h *Holds) Take(ctx context.Context, id types.ResourceID, size func(context.Context) (int, error)) (release func(), err error) {
	if err := h.measure(ctx, id, size); err != nil {
		return nil, err
	}
	release = sync.OnceFunc(func() { h.release(id) })
	turn, taken := h.join(id)
	if taken {
		return release, nil
	}
	select {
	case <-turn:
		return release, nil
	case <-ctx.Done():
		if !h.leave(id, turn) {
			release() // its turn came meanwhile
		}
		return nil, types.Errorf(types.Unavailable, "hold %s: %w", id, ctx.Err())
	}
}

// measure reads the size of a resource, unless it was read lately.
func (h *Holds) measure(ctx context.Context, id types.ResourceID, size func(context.Context) (int, error)) error {
	h.mu.Lock()
	l := h.lines[id]
	fresh := l != nil && time.Since(l.read) < sizeFor
	h.mu.Unlock()
	if fresh {
		return nil
	}
	n, err := size(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lines[id] == nil {
		h.forget()
		h.lines[id] = &line{}
	}
	l = h.lines[id]
	l.size, l.read = n, time.Now()
	l.serve()
	return nil
}

// forget drops the resources that no task uses.
func (h *Holds) forget() {
	for id, l := range h.lines {
		if l.held+len(l.waiting) == 0 && time.Since(l.read) >= sizeFor {
			delete(h.lines, id)
		}
	}
}

// join takes a unit, or a place at the end of the line.
func (h *Holds) join(id types.ResourceID) (turn chan struct{}, taken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lines[id]
	if l == nil { // it was forgotten since it was measured
		l = &line{size: 1}
		h.lines[id] = l
	}
	turn = make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.serve()
	select {
	case <-turn:
		return turn, true
	default:
		return turn, false
	}
}

// leave gives up a place in the line; false means that its turn has come.
func (h *Holds) leave(id types.ResourceID, turn chan struct{}) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lines[id]
	for i, other := range l.waiting {
		if other == turn {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			return true
		}
	}
	return false
}

func (h *Holds) release(id types.ResourceID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lines[id]
	l.held--
	l.serve()
}

// serve gives free units to those that wait longest.
func (l *line) serve() {
	for l.held < l.size && len(l.waiting) > 0 {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.held++
	}
}

// Held is the event when a task holds a unit, and when the agent has taken it back.
type Held struct {
	Name string `json:"name"`
}

// hold gives the task a unit of a resource of its node for as long as the request lasts.
func (s *Server) hold(w http.ResponseWriter, r *http.Request) {
	name, limit, err := holdOf(r)
	if err != nil {
		answer.Refuse(w, err)
		return
	}
	ns := s.cfg.Self.Namespace
	release, err := s.cfg.Bounds.holds.Take(r.Context(), types.Resolve(ns, name), func(ctx context.Context) (int, error) { return s.units(ctx, name) })
	if err != nil {
		answer.Fail(w, r, s.cfg.Log, err)
		return
	}
	defer release()
	out := answer.NewStream(w)
	defer out.End()
	if out.Send("held", 0, Held{name}) != nil {
		return
	}
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case <-r.Context().Done():
	case <-over.C:
		release()
		_ = out.Send("over", 0, Held{name}) // the task may be gone
	}
}

// holdOf returns the parameters of a hold.
func holdOf(r *http.Request) (name string, limit time.Duration, err error) {
	if err := onlyParameters(r, "name", "limit"); err != nil {
		return "", 0, err
	}
	query := r.URL.Query()
	name, limit = query.Get("name"), defaultHold
	if err := types.ValidateName("name", name); err != nil {
		return "", 0, err
	}
	if text := query.Get("limit"); text != "" {
		if limit, err = time.ParseDuration(text); err != nil || limit <= 0 || limit > longestHold {
			return "", 0, types.Errorf(types.Invalid, "limit: %q is not a time above 0 and up to %s: write it such as 10s, or leave it out for %s", text, longestHold, defaultHold)
		}
	}
	return name, limit, nil
}

// units returns how many units of a resource the node of the task has. NotFound: it has none.
func (s *Server) units(ctx context.Context, name string) (int, error) {
	self := s.cfg.Self
	for _, where := range []string{self.Node, types.EveryNode} {
		page, err := s.cfg.Client.Store().List(ctx, controlplane.ListOptions{Key: controlplane.ResourceKey(self.Namespace, name, where)})
		var found types.Resource
		switch {
		case err != nil:
			return 0, types.Errorf(types.ClassOf(err), "hold %s: %w", name, err)
		case len(page.KVs) == 0:
		case types.Decode(page.KVs[0].Value, &found) == nil:
			if found.Capacity < wholeUnit {
				return 0, types.Errorf(types.Precondition, "hold %s: it is closed on node %s: give it a capacity of 1 or more first", name, self.Node)
			}
			return int(min(found.Capacity, types.MaxAllocated) / wholeUnit), nil
		}
	}
	return 0, types.Errorf(types.NotFound, "hold %s: node %s has no such resource: create it there first, or correct the name", name, self.Node)
}

// wholeUnit is one unit of an ephemeral resource.
const wholeUnit types.Quantity = 1000
