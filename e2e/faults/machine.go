package faults

import (
	"context"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// ttl is how long the session of a node lasts.
const ttl = 9 * time.Second

// machine is a node: its processes, its agent, and its simulated watchdog.
type machine struct {
	w       *world
	name    string
	dir     string
	runtime *simruntime.Runtime
	agent   *part

	mu sync.Mutex
	// boots counts starts of the machine; ahead is how far its clock jumped.
	boots int
	ahead time.Duration
}

func (w *world) newMachine(name string) *machine {
	m := &machine{w: w, name: name, dir: filepath.Join(w.dir, name)}
	m.runtime = simruntime.New(simruntime.Config{
		Script: func(c nodeagent.Container) (simruntime.Behaviour, error) { return hollow.ByCommand(c) },
		Fault:  m.fault,
	})
	m.agent = &part{name: "agent " + name, run: m.run, died: m.guard}
	return m
}

// run is the agent.
func (m *machine) run(ctx context.Context, store controlplane.Store) error {
	m.mu.Lock()
	boot := m.boots
	m.mu.Unlock()
	agent, err := nodeagent.New(nodeagent.Config{
		Store: store, Runtime: started{m.runtime, m}, Cluster: m.w.id, Node: m.name, TTL: ttl, StateDir: m.dir,
		Capacity: types.NewRequests(map[string]types.Quantity{string(types.CPU): 4000}), Logger: m.w.log.Named(m.name),
		BootClock: m.clock, BootID: m.name + "-" + string(rune('a'+boot%26)),
	})
	if err != nil {
		return err
	}
	return agent.Run(ctx)
}

// clock is the time since the machine was booted. It only jumps forward.
func (m *machine) clock() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.w.began) + time.Hour + m.ahead
}

func (m *machine) jump(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead += by
}

// fault decides the fate of a call of the runtime. Some calls kill the agent.
func (m *machine) fault(op simruntime.Op, _ string) simruntime.Fault {
	l := m.agent.current()
	if l == nil || m.w.calm() {
		return simruntime.NoFault
	}
	switch n := l.draw(1000); {
	case n < 15:
		return simruntime.Refused
	case n < 30:
		return simruntime.Unanswered
	case n < 33:
		m.w.note("%s dies with %s", m.agent.name, op)
		l.kill()
		return simruntime.Refused
	case n < 36:
		m.w.note("%s dies with %s", m.agent.name, op)
		l.kill()
		return simruntime.Unanswered
	}
	return simruntime.NoFault
}

// guard acts as the watchdog of a dead agent: it kills all processes by the deadline of the
// session, unless the agent is back.
func (m *machine) guard(dead *line) {
	dead.mu.Lock()
	at := dead.renewed.Add(ttl - ttl/10)
	dead.mu.Unlock()
	m.w.goes.Go(func() {
		time.Sleep(time.Until(at))
		if now := m.agent.current(); now == dead {
			m.killAll()
		} else {
			now.mu.Lock()
			renewed := now.renewed.After(dead.renewed)
			now.mu.Unlock()
			if !renewed {
				m.killAll()
			}
		}
	})
}

func (m *machine) killAll() {
	for _, id := range m.runtime.Running() {
		_ = m.runtime.Finish(id, 128+int(syscall.SIGKILL))
	}
}

// reboot ends the agent and all processes, like a power failure.
func (m *machine) reboot() {
	if l := m.agent.current(); l != nil {
		l.kill()
	}
	m.mu.Lock()
	m.boots++
	m.mu.Unlock()
	m.runtime.Reboot()
}

// started is the runtime of a machine. After each start it checks whether another machine runs a
// process of the same task.
type started struct {
	*simruntime.Runtime
	m *machine
}

func (r started) Start(ctx context.Context, c nodeagent.Container) (nodeagent.Started, error) {
	s, err := r.Runtime.Start(ctx, c)
	if err == nil {
		r.m.w.runsOnce(r.m, c.Attempt)
	}
	return s, err
}
