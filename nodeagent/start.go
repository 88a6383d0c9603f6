package nodeagent

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// begin starts the container in the background. Before, it builds the container, stores what
// another agent needs to take over, and records that the start is under way.
func (t *task) begin(ctx context.Context) error {
	c, err := t.container(ctx)
	if c == nil || err != nil {
		return err
	}
	if err := t.prepare(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	if err := t.starting(c, cancel); err != nil {
		cancel()
		return err
	}
	t.a.spawn(func(context.Context) {
		defer cancel()
		t.started(t.startInTurn(ctx, *c))
	})
	return nil
}

// container returns the container to start; nil if there is nothing to start, or the node can never
// run it.
func (t *task) container(ctx context.Context) (*Container, error) {
	a := t.a
	a.mu.Lock()
	b, spec, seen := t.binding, t.spec, t.seen
	a.mu.Unlock()
	if b == nil || spec == nil {
		return nil, nil
	}
	c, err := a.cfg.container(t.id, t.attempt, b, spec)
	if types.Is(err, types.Invalid) {
		t.never(exitCannotRun, err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if set := a.spaces.get(ctx, t.attempt.Namespace); set != nil && spec.Pids == 0 {
		c.Pids = a.cfg.Permissions.Usual(set.Pids)
	}
	read, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	env, err := t.job.Env(read, spec.Peers)
	if err != nil {
		return nil, err
	}
	c.Env = slices.Insert(c.Env, len(c.Env)-len(spec.Env), env...) // the spec's own come last, and count
	c.Restart = seen.Reported.Restarts
	if seen.Image != "" {
		c.Image = seen.Image // A restart runs the same image as before, even if the name refers to another one now.
	}
	return &c, nil
}

// prepare sets up what must exist before the process: the record that it outlives sessions, its
// task socket and the addresses of its peers, and no mark of an earlier end.
func (t *task) prepare(ctx context.Context) error {
	if t.kept() {
		if err := t.a.noteKept(t.id); err != nil {
			return err
		}
	}
	if err := t.serve(ctx); err != nil {
		return err
	}
	// The watchdog may have killed an interrupted start: that is not the end of this one.
	return t.a.marks.unfence(t.id)
}

// starting records that the start of a container is under way; cancel cancels it. Unavailable:
// another process may still hold its devices.
func (t *task) starting(c *Container, cancel context.CancelFunc) (busy error) {
	t.changed(func(s *Seen) {
		// Check and record under one lock: two tasks that start together see each other.
		if busy = t.mayHaveDevices(); busy != nil {
			return
		}
		t.renew()
		if s.Cause == Fenced {
			s.Cause, s.Signalled, s.Killed = "", time.Time{}, time.Time{}
		}
		s.Container, s.Restart = Starting, c.Restart
		if s.Trouble == "" {
			t.note(StepStarting, "image %s", c.Image)
		}
		t.cancelStart = cancel
	})
	return busy
}

// startInTurn starts a container, once its workdir is here and less than the maximum number of
// starts are under way.
func (t *task) startInTurn(ctx context.Context, c Container) (started Started, err error) {
	a := t.a
	if c.Workdir != nil {
		if err := t.bring(ctx, c.Workdir.Image); err != nil {
			return started, err
		}
	}
	if err := t.addSecrets(ctx, &c); err != nil {
		return started, err
	}
	if get := a.cfg.Login; get != nil {
		c.Login = func(ctx context.Context) (secrets.Login, error) {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			return get(ctx, t.attempt)
		}
	}
	if err := a.starts.Acquire(ctx, 1); err != nil {
		return started, err
	}
	// A slow registry must not keep other containers from starting.
	release := sync.OnceFunc(func() { a.starts.Release(1) })
	defer release()
	a.spawn(func(context.Context) { t.watchPull(ctx, c.Image, release) })
	err = supervise.Contain(func() (err error) {
		started, err = t.start(ctx, c)
		return err
	})
	return started, err
}

// addSecrets adds the values of the secrets of the task to its container. Only the container has them.
func (t *task) addSecrets(ctx context.Context, c *Container) error {
	t.a.mu.Lock()
	spec := t.spec
	t.a.mu.Unlock()
	if spec == nil || len(spec.Secrets) == 0 {
		return nil
	}
	if t.a.cfg.Secrets == nil {
		return types.Errorf(types.Invalid, "get the secrets of the task: the agent of node %s reaches etcd without a server, and only servers open secrets: %s %s", t.attempt.Node, action.StartAgentWith.Of(), action.AgentServer.Of())
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	values, err := t.a.cfg.Secrets(ctx, t.attempt)
	if err != nil {
		return err
	}
	env, dirs, err := secrets.Give(spec.Secrets, values)
	c.Env, c.Mounts, c.Secrets = slices.Concat(c.Env, env), slices.Clone(c.Mounts), dirs
	for _, d := range dirs {
		c.Mounts = append(c.Mounts, Mount{Target: d.Target, TmpfsBytes: secrets.DirBytes})
	}
	slices.SortStableFunc(c.Mounts, func(x, y Mount) int { return cmp.Compare(depth(x.Target), depth(y.Target)) })
	return err
}

// started records the outcome of a start.
func (t *task) started(what Started, err error) {
	t.changed(func(s *Seen) {
		cancelled := s.Cancelled
		t.cancelStart, s.Cancelled = nil, false
		if what.Image != "" {
			s.Image = what.Image
		}
		switch {
		case err == nil:
			t.fine()
			s.Container, s.Started, s.Ran = Running, time.Now(), true
			t.imageCheck = what.Check
			t.useImageCheck()
			t.note(StepStarted, "image %s", cmp.Or(s.Image, t.spec.Image))
			t.a.cfg.Metrics.started("started")
			if s.Restart > 0 {
				t.a.cfg.Metrics.restarts.Inc()
			} else {
				t.a.cfg.Metrics.ready(time.Since(s.Since))
			}
		case types.Is(err, types.NotFound):
			t.cannotRun(exitNotFound, err)
		case types.Is(err, types.Invalid):
			t.cannotRun(exitCannotRun, err)
		case cancelled:
			s.Container = Unknown
		default:
			t.failed(err)
			s.Container = Unknown
			t.a.cfg.Metrics.started("failed")
		}
	})
}

// cannotRun records that the attempt can never start. The caller holds a.mu.
func (t *task) cannotRun(code int, err error) {
	t.log.Info("cannot run", zap.Error(err))
	t.note(StepFailed, "%s", err)
	t.seen.Container, t.seen.Failed = Absent, &Exit{Code: code, Reason: t.a.cfg.reasonOf(err), At: time.Now()}
	t.a.cfg.Metrics.started("never")
}

// giveUpStart cancels the start under way.
func (t *task) giveUpStart() {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.seen.Cancelled = true
	if t.cancelStart != nil {
		t.cancelStart()
	}
}
