package nodeagent

import (
	"context"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/peers"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// follow watches the bindings of the node. The agent watches nothing else.
func (a *Agent) follow(ctx context.Context) error {
	opts := controlplane.ListWatchOptions{Prefix: controlplane.Prefix(controlplane.Bindings, a.cfg.Node), Log: a.log}
	return controlplane.ListWatch(ctx, a.cfg.Store, opts, a.apply)
}

// apply applies an update of the bindings.
func (a *Agent) apply(u controlplane.Update) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range u.Events {
		if e.Delete {
			a.unbind(e.Key)
			continue
		}
		at, b, err := a.binding(e.KV)
		if err != nil {
			a.log.Warn("a binding cannot be read: it counts as absent", zap.String("path", e.Key), zap.Int64("revision", e.ModRevision), zap.Error(err))
			a.unbind(e.Key)
			continue
		}
		a.bind(e.Key, at, b)
	}
	if u.Synced && !a.synced {
		// The scheduler deletes reports without a binding.
		a.synced, a.reports = true, nil
		a.lookSoon()
	}
	a.state.saw(u.Revision)
	return nil
}

// binding decodes a binding.
func (a *Agent) binding(kv controlplane.KV) (Attempt, *types.Binding, error) {
	k, ok := controlplane.Parse(kv.Key)
	if !ok || k.Kind != controlplane.Bindings {
		return Attempt{}, nil, types.Errorf(types.Internal, "read %s: it is no key of a binding", kv.Key)
	}
	b := new(types.Binding)
	if err := types.Decode(kv.Value, b); err != nil {
		return Attempt{}, nil, types.Errorf(types.Internal, "read %s: %w", kv.Key, err)
	}
	return Attempt{
		Cluster: a.cfg.Cluster, Node: a.cfg.Node,
		Namespace: k.Namespace, Task: k.ID, Number: k.Attempt, Revision: kv.CreateRevision,
	}, b, nil
}

// bind records a binding. The caller holds a.mu.
func (a *Agent) bind(key string, at Attempt, b *types.Binding) {
	if old := a.byKey[key]; old != nil && old.attempt.Revision != at.Revision {
		a.unbind(key) // The agent missed the deletion: the binding was created again.
	}
	t := a.tasks[ContainerID(at)]
	if t == nil {
		t = a.newTask(at)
		t.note(StepBound, "attempt %d", at.Number)
	}
	t.binding, t.shares = b, sharesOf(b)
	a.byKey[key] = t
	if r, ok := a.reports[controlplane.ReportKey(at.Node, at.Namespace, at.Task, at.Number)]; ok && r.Binding == at.Revision {
		t.seen.Reported, t.seen.Image = r, r.Image
	}
	t.poke()
}

// logged returns the log field that names an attempt.
func logged(a Attempt) zap.Field {
	return zap.Inline(zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
		enc.AddString("namespace", a.Namespace)
		enc.AddString("task", a.Task)
		enc.AddInt("attempt", a.Number)
		return nil
	}))
}

// unbind records that a binding is gone. The caller holds a.mu.
func (a *Agent) unbind(key string) {
	if t := a.byKey[key]; t != nil {
		t.binding = nil
		delete(a.byKey, key)
		t.poke()
	}
}

// newTask makes the task of an attempt and runs it. The caller holds a.mu.
func (a *Agent) newTask(at Attempt) *task {
	t := &task{
		a: a, id: ContainerID(at), attempt: at, wake: make(chan struct{}, 1), retry: controlplane.RetryPolicy(),
		log: a.log.With(logged(at)),
	}
	self := peers.Self{Namespace: at.Namespace, Task: at.Task, Attempt: at.Number, Revision: at.Revision}
	t.job = a.peers.Attempt(self, filepath.Join(a.cfg.socketDir(t.id), tasksocket.PeersName))
	t.seen.Since = time.Now()
	if a.listed {
		// Only this agent makes containers.
		t.seen.Container = Absent
	} else {
		k := a.marks.get(t.id)
		t.seen.Cause, t.seen.Warned, t.seen.Health.Reason = k.cause, k.warned, k.reason
	}
	a.tasks[t.id] = t
	a.spawn(t.run)
	return t
}
