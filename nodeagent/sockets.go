package nodeagent

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/peers"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// serve serves the task socket of an attempt, if it is not served yet, and keeps the file of
// addresses next to it up to date. Both exist before the process, and again after a restart of the
// agent.
func (t *task) serve(ctx context.Context) error {
	a := t.a
	a.mu.Lock()
	serving := t.closeSocket != nil
	spec := t.spec
	a.mu.Unlock()
	switch {
	case serving || a.cfg.SocketDir == "":
		return nil
	case spec == nil: // the spec has the mode of the socket
		return types.Errorf(types.Unavailable, "serve task socket: the spec was not read yet")
	case spec.Socket == types.SocketNone:
		return nil
	}
	if err := t.job.WriteFirst(spec.Peers); err != nil { // before Follow, which knows more
		return err
	}
	client, release, err := a.clients.of(a.cfg.Store, t.attempt.Namespace)
	if err != nil {
		return err
	}
	dir := a.cfg.socketDir(t.id)
	server, err := tasksocket.Listen(tasksocket.Config{
		Dir: dir, Client: client, Bounds: a.bounds, API: a.cfg.API, Mode: spec.Socket, Log: t.log,
		Budget: func(ctx context.Context) types.Budget { return a.spaces.get(ctx, t.attempt.Namespace).Allowed() },
		Peers: func(ctx context.Context, tell func([]peers.Peer) error) error {
			return t.job.Watch(ctx, t.log, tell)
		},
		Self: tasksocket.Self{Namespace: t.attempt.Namespace, Task: t.attempt.Task, Attempt: t.attempt.Number, Node: a.cfg.Node},
	})
	if err != nil {
		release()
		return types.Errorf(types.Unavailable, "serve task socket: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Add(1)
	a.mu.Lock()
	t.closeSocket = func() { cancel(); done.Wait(); release() }
	a.mu.Unlock()
	if spec.Peers.Followed() {
		done.Add(1)
		a.spawn(func(context.Context) {
			defer done.Done()
			t.job.Follow(ctx, t.log)
		})
	}
	a.spawn(func(context.Context) {
		defer done.Done()
		if err := server.Run(ctx); err != nil && ctx.Err() == nil {
			t.log.Error("task socket failed", zap.Error(err))
		}
	})
	return nil
}

// serveAgain serves the task socket of a running process, or sets when to try again.
func (t *task) serveAgain(ctx context.Context) {
	err := t.serve(ctx)
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	if err == nil {
		t.seen.ServeAt = time.Time{}
		return
	}
	if t.seen.ServeAt.IsZero() && t.spec != nil {
		t.log.Error("without its task socket, to be tried again", zap.Error(err))
	}
	t.seen.ServeAt = time.Now().Add(serveGap)
}

// unserve ends what serve began. Nothing can use the socket once the attempt is no longer bound.
func (t *task) unserve() {
	t.a.mu.Lock()
	closeSocket, bound := t.closeSocket, t.binding != nil
	t.closeSocket = nil
	t.a.mu.Unlock()
	if closeSocket != nil {
		closeSocket()
	}
	if !bound && t.a.cfg.SocketDir != "" {
		_ = os.RemoveAll(t.a.cfg.socketDir(t.id)) // sweepSockets removes a directory that is left; it is harmless.
	}
}

// sweepSockets removes the socket directories of attempts that are gone. The caller holds a.mu.
func (a *Agent) sweepSockets() {
	if a.cfg.SocketDir == "" {
		return
	}
	wanted := make(map[string]bool, len(a.tasks))
	for id := range a.tasks {
		wanted[a.cfg.socketDir(id)] = true
	}
	left, err := os.ReadDir(a.cfg.SocketDir)
	if err != nil {
		return // There is no directory yet.
	}
	for _, entry := range left {
		dir := filepath.Join(a.cfg.SocketDir, entry.Name())
		if len(entry.Name()) == 2*hashBytes && !wanted[dir] {
			_ = os.RemoveAll(dir) // The next life tries again.
		}
	}
}

// clients has one client per namespace with tasks here. However many tasks wait for others, the
// store is watched once per namespace.
type clients struct {
	mu   sync.Mutex
	byNS map[string]*sharedClient
}

// sharedClient is a client and the number of sockets that use it.
type sharedClient struct {
	*controlplane.Client
	users int
}

// of returns the client of a namespace and the function that releases it.
func (c *clients) of(store controlplane.Store, ns string) (client *controlplane.Client, release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shared := c.byNS[ns]
	if shared == nil {
		client, err := controlplane.New(store, ns)
		if err != nil {
			return nil, nil, err
		}
		if c.byNS == nil {
			c.byNS = make(map[string]*sharedClient)
		}
		shared = &sharedClient{Client: client}
		c.byNS[ns] = shared
	}
	shared.users++
	return shared.Client, sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if shared.users--; shared.users == 0 {
			delete(c.byNS, ns)
		}
	}), nil
}
