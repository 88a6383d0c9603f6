package nodeagent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// The methods below are what package nodeapi needs of an agent.

// Node returns the name of the node.
func (a *Agent) Node() string { return a.cfg.Node }

// Token returns the token that authorizes its bearer to use the node's API; "" before the first
// session.
func (a *Agent) Token() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.token
}

// setToken stores the token of a session.
func (a *Agent) setToken(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = token
}

// Await returns nil once the agent knows the bindings of its node and the containers there, and
// ctx.Err() if ctx ends before.
func (a *Agent) Await(ctx context.Context) error {
	a.mu.Lock()
	known := a.known
	a.mu.Unlock()
	select {
	case <-known:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ready returns nil once Await would, and Unavailable before.
func (a *Agent) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.readyLocked()
}

// readyLocked is Ready. The caller holds a.mu.
func (a *Agent) readyLocked() error {
	if !a.synced || !a.listed {
		return types.Errorf(types.Unavailable, "ask the agent of node %s: it is starting: try again in a moment", a.cfg.Node)
	}
	return nil
}

// Bound reports whether an attempt is still bound to the node, so that more output may follow.
// Unavailable: not known yet.
func (a *Agent) Bound(ns, id string, attempt int) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.readyLocked(); err != nil {
		return false, err
	}
	return a.attemptLocked(ns, id, attempt) != nil, nil
}

// ContainerOf returns the id of the container of a running attempt. Precondition: the attempt does
// not run, or is not bound to the node. Unavailable: not known yet.
func (a *Agent) ContainerOf(ns, id string, attempt int) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.readyLocked(); err != nil {
		return "", err
	}
	t := a.attemptLocked(ns, id, attempt)
	switch {
	case t == nil:
		return "", types.Errorf(types.Precondition, "find attempt %d of task %s: it is not on node %s: to find it: %s", attempt, id, a.cfg.Node, action.Describe.Of(id))
	case t.seen.Container != Running:
		return "", types.Errorf(types.Precondition, "find the container of task %s: it does not run, it is %s: %s", id, t.seen.Container, action.AwaitRunning.Of(id))
	}
	return t.id, nil
}

// attemptLocked returns the task of a bound attempt; nil if it is not bound. The caller holds a.mu.
func (a *Agent) attemptLocked(ns, id string, attempt int) *task {
	return a.byKey[controlplane.BindingKey(a.cfg.Node, ns, id, attempt)]
}

// LogPath returns the path of the output of an attempt, whether or not it exists; "" if the agent
// keeps no logs. ns and id must be valid names.
func (a *Agent) LogPath(ns, id string, attempt int) string {
	if a.cfg.StateDir == "" {
		return ""
	}
	return LogPath(a.cfg.StateDir, ns, id, attempt)
}

// Logged returns the attempts of a task whose output is on this node, in order. An empty list is no
// error. ns and id must be valid names.
func (a *Agent) Logged(ns, id string) ([]int, error) {
	if a.cfg.StateDir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(filepath.Dir(LogPath(a.cfg.StateDir, ns, id, 1)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "list the logs of task %s: %w", id, err)
	}
	var attempts []int
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), ".log")
		if n, err := strconv.Atoi(number); ok && err == nil && n > 0 {
			attempts = append(attempts, n)
		}
	}
	slices.Sort(attempts)
	return attempts, nil
}

// String describes the state of a container for people.
func (s ContainerState) String() string {
	switch s {
	case Absent:
		return "not started yet"
	case Starting:
		return "starting"
	case Created:
		return "made, and not started"
	case Running:
		return "running"
	case Exited:
		return "over"
	}
	return "being looked for"
}
