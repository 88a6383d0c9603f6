package nodeagent_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// runInRealTime starts the agent outside of a bubble.
func (b *bench) runInRealTime() (crash func()) {
	b.t.Helper()
	agent, err := nodeagent.New(b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = agent.Run(ctx) }()
	return func() { cancel(); <-done }
}

// known is what an agent knows of a task that asks.
type known struct {
	tasksocket.Self
	Own bool
}

// tells is an API that tells a task how the agent knows it.
func tells(w http.ResponseWriter, r *http.Request) {
	c, _ := tasksocket.CallerOf(r.Context())
	if r.URL.Path == "/v1/peers" {
		c.Peers(w, r)
		return
	}
	answer.JSON(w, http.StatusOK, known{c.Self, c.Own})
}

// bySocket returns a client of the socket in a directory.
func bySocket(dir string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, tasksocket.Name))
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

// asked asks the socket in a directory which task it is of.
func asked(ctx context.Context, dir string) (c known, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://escher/v1/whoami", nil)
	if err != nil {
		return c, err
	}
	res, err := bySocket(dir).Do(req)
	if err != nil {
		return c, err
	}
	defer res.Body.Close()
	return c, json.NewDecoder(res.Body).Decode(&c)
}

// TestSocket follows the socket of an attempt: it exists when the process starts and after a
// restart of the agent, and is gone with the binding. Sockets work in real time only.
func TestSocket(t *testing.T) {
	began, adopted, removed := make(chan error, 1), make(chan struct{}, 9), make(chan error, 1)
	var host string
	ask := func() error {
		self, err := asked(context.Background(), host)
		if err == nil && self.Task != "a" {
			err = errors.New("it is " + self.Task)
		}
		return err
	}
	rt := simruntime.Config{
		Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
			for _, m := range c.Mounts {
				if m.Target == "/run/escher" && m.ReadOnly {
					host = m.Source
				}
			}
			if !strings.Contains(strings.Join(c.Env, " "), "ESCHER_SOCKET=/run/escher/task.sock") {
				t.Error(c.Env)
			}
			began <- ask()
			return simruntime.Behaviour{Forever: true}, nil
		},
		Fault: func(op simruntime.Op, _ string) simruntime.Fault {
			switch op {
			case simruntime.Wait:
				adopted <- struct{}{}
			case simruntime.Remove:
				removed <- ask()
			}
			return simruntime.NoFault
		},
	}
	b := newBench(t, rt)
	b.cfg.SocketDir = t.TempDir()
	b.cfg.BootClock, b.cfg.BootID = nil, ""
	left := filepath.Join(b.cfg.SocketDir, "0123456789abcdef")
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	crash := b.runInRealTime()
	b.bind("a", func(x *types.Binding) { x.Session, x.OnDisconnect = 1, types.Keep })
	if err := <-began; err != nil {
		t.Fatal("when the process starts:", err)
	}
	<-adopted
	crash()
	if err := ask(); err == nil {
		t.Fatal("without an agent:", err)
	}
	crash = b.runInRealTime()
	defer func() { crash() }()
	<-adopted
	if err := ask(); err != nil {
		t.Fatal("after a restart:", err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Error("what an earlier agent left is there still:", err)
	}
	b.release("a")
	if err := <-removed; err == nil {
		t.Error("after the release:", err)
	}
	if _, err := os.Stat(host); !os.IsNotExist(err) {
		t.Error("the directory is there still:", err)
	}
	b.once()
}

// TestSocketInTheWay adopts a process whose socket cannot be made: it is watched and ended as
// usual, and gets its socket once that is possible.
func TestSocketInTheWay(t *testing.T) {
	adopted, ended := make(chan struct{}, 9), make(chan struct{}, 9)
	hosts := make(chan string, 2)
	b := newBench(t, simruntime.Config{
		Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
			hosts <- c.Mounts[len(c.Mounts)-1].Source
			return simruntime.Behaviour{Forever: true}, nil
		},
		Fault: func(op simruntime.Op, _ string) simruntime.Fault {
			switch op {
			case simruntime.Wait:
				adopted <- struct{}{}
			case simruntime.Signal:
				ended <- struct{}{}
			}
			return simruntime.NoFault
		},
	})
	b.cfg.SocketDir = filepath.Join(t.TempDir(), "s")
	b.cfg.BootClock, b.cfg.BootID = nil, ""
	crash := b.runInRealTime()
	b.bind("a", func(x *types.Binding) { x.Session, x.OnDisconnect = 1, types.Keep })
	host := <-hosts
	comes(t, adopted, "it does not run")
	crash()
	if err := errors.Join(os.RemoveAll(b.cfg.SocketDir), os.WriteFile(b.cfg.SocketDir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	crash = b.runInRealTime()
	defer func() { crash() }()
	comes(t, adopted, "without its socket it is not watched")
	if err := os.Remove(b.cfg.SocketDir); err != nil {
		t.Fatal(err)
	}
	for late := time.After(time.Minute); ; {
		if _, err := asked(t.Context(), host); err == nil {
			break
		}
		select {
		case <-late:
			t.Fatal("the socket is not served")
		case <-time.After(50 * time.Millisecond):
		}
	}
	crash()
	if err := errors.Join(os.RemoveAll(b.cfg.SocketDir), os.WriteFile(b.cfg.SocketDir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	crash = b.runInRealTime()
	b.stop("a", types.Stop{Reason: "enough"})
	comes(t, ended, "it cannot be stopped")
}

// comes waits for a channel, in real time.
func comes(t *testing.T, what <-chan struct{}, or string) {
	t.Helper()
	select {
	case <-what:
	case <-time.After(time.Minute):
		t.Fatal(or)
	}
}

// TestBootClock tests the default clock.
func TestBootClock(t *testing.T) {
	b := newBench(t, simruntime.Config{})
	b.cfg.BootClock, b.cfg.BootID = nil, ""
	agent, err := nodeagent.New(b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	batches := b.store.Store.Watch(ctx, aliveWatch())
	go func() {
		for batch := range batches {
			if len(batch.Events) > 0 {
				cancel()
			}
		}
	}()
	if err := agent.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error("not alive:", err)
	}
}

func aliveWatch() controlplane.WatchOptions {
	return controlplane.WatchOptions{Prefix: controlplane.Prefix(controlplane.Alive), From: 1}
}

// TestSocketMode tests the socket that a spec requests, also after a restart of the agent.
func TestSocketMode(t *testing.T) {
	for _, mode := range []types.Socket{types.SocketNamespace, types.SocketSelf, types.SocketNone} {
		t.Run(mode.String(), func(t *testing.T) {
			adopted, made := make(chan struct{}, 9), make(chan nodeagent.Container, 1)
			rt := simruntime.Config{
				Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
					made <- c
					return simruntime.Behaviour{Forever: true}, nil
				},
				Fault: func(op simruntime.Op, _ string) simruntime.Fault {
					if op == simruntime.Wait {
						adopted <- struct{}{}
					}
					return simruntime.NoFault
				},
			}
			b := newBench(t, rt)
			b.cfg.SocketDir = t.TempDir()
			b.cfg.BootClock, b.cfg.BootID = nil, ""
			spec := b.runs(func(s *types.Spec) { s.Socket = mode })
			crash := b.runInRealTime()
			b.bind("a", spec, func(x *types.Binding) { x.Session, x.OnDisconnect = 1, types.Keep })
			c := <-made
			host := ""
			for _, m := range c.Mounts {
				if m.Target == tasksocket.Dir {
					host = m.Source
				}
			}
			if shown := strings.Contains(strings.Join(c.Env, " "), tasksocket.EnvSocket); shown != (mode != types.SocketNone) || shown != (host != "") {
				t.Errorf("mounted from %q, %v", host, c.Env)
			}
			for _, when := range []string{"at first", "after a restart"} {
				<-adopted
				got, err := asked(t.Context(), host)
				if (err == nil) != (mode != types.SocketNone) || got.Own != (mode == types.SocketSelf) {
					t.Errorf("%s: %+v, %v", when, got, err)
				}
				crash()
				crash = b.runInRealTime()
			}
			crash()
		})
	}
}
