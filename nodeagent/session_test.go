package nodeagent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

func keep(x *types.Binding) { x.OnDisconnect = types.Keep }

func TestSessionOutlastsRestart(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		session := b.session()
		b.bind("a")
		synctest.Wait()
		b.crash()
		b.pass(10 * time.Second)
		b.start()
		b.pass(time.Minute)
		if got := b.session(); got != session {
			t.Errorf("session %d, want %d still", got, session)
		}
		b.alive(1)
		b.expect("a", types.ReportRunning)
	})
}

// TestDeadByDeadline takes the store away at all times between two renewals: attempts that must not
// outlive the session are dead before its lease can have ended, and not before they must be.
func TestDeadByDeadline(t *testing.T) {
	for _, behaviour := range []simruntime.Behaviour{
		{Forever: true},
		{Forever: true, Deaf: true},
		{Forever: true, StopAfter: 20 * time.Second},
	} {
		for ms := 0; ms < 5000; ms += 700 {
			bubble(t, does(behaviour), func(t *testing.T, b *bench) {
				b.crash()
				b.store.slow = time.Duration(ms%2100) * 2 * time.Millisecond
				b.start()
				b.pass(5 * time.Second)
				b.bind("a")
				kept := b.bind("k", keep)
				b.pass(ttl + time.Duration(ms)*time.Millisecond)
				b.store.set(true)
				lost := time.Now()
				for b.session() != 0 && len(b.runtime.Running()) == 2 {
					b.pass(100 * time.Millisecond)
				}
				if b.session() == 0 {
					t.Fatalf("%+v, store away for %s: it runs, and the session is over", behaviour, time.Since(lost))
				}
				if early := time.Since(lost); early < time.Second {
					t.Errorf("ended after %s", early)
				}
				b.pass(time.Minute)
				if got := b.runtime.Running(); len(got) != 1 || got[0] != kept {
					t.Errorf("%v run, want what is kept alone", got)
				}
			})
		}
	}
}

func TestFencedIsReported(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Forever: true, StopCode: 1}), func(t *testing.T, b *bench) {
		session := b.session()
		b.bind("a")
		b.pass(time.Second)
		b.store.set(true)
		b.pass(9 * time.Second)
		b.alive(0)
		b.store.set(false)
		b.pass(3 * time.Second)
		if b.session() != session {
			t.Fatal("the session did not go on")
		}
		if r := b.expect("a", types.ReportExited); !r.Fenced || r.Stopped {
			t.Errorf("%+v", r)
		}
		b.release("a")
		id := b.bind("b")
		b.pass(time.Second)
		if b.runtime.Runs()[id] != 1 {
			t.Error("nothing is started after the session went on")
		}
	})
}

func TestShortOutageHarmsNobody(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		b.bind("a")
		for range 10 {
			b.pass(6 * time.Second)
			b.store.set(true)
			b.pass(3 * time.Second)
			b.store.set(false)
		}
		b.alive(1)
	})
}

// TestOutageIsSaidOnce tests that an agent which cannot renew its session logs the start and the
// end of the outage.
func TestOutageIsSaidOnce(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		b.crash()
		core, logs := observer.New(zap.InfoLevel)
		b.cfg.Logger = zap.New(core)
		b.start()
		for range 2 {
			b.pass(6 * time.Second)
			b.store.set(true)
			b.pass(6 * time.Second)
			b.store.set(false)
		}
		b.pass(6 * time.Second)
		for says, want := range map[string]int{"session not renewed: trying again": 2, "session renewed again": 2} {
			if got := logs.FilterMessage(says).Len(); got != want {
				t.Errorf("it says %q %d times, want %d", says, got, want)
			}
		}
	})
}

// TestNodeBack tests a node that was out of reach for longer than its session: it comes back in a
// new session, and nothing of the old one runs except kept attempts.
func TestNodeBack(t *testing.T) {
	rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		if c.Attempt.Task == "never" {
			return simruntime.Behaviour{}, types.Errorf(types.Unavailable, "pull: the registry does not answer")
		}
		return simruntime.Behaviour{Forever: true}, nil
	}}
	var started atomic.Int64
	rt.Fault = func(op simruntime.Op, id string) simruntime.Fault {
		if op == simruntime.Start && strings.HasPrefix(id, "never-") {
			started.Add(1)
		}
		return simruntime.NoFault
	}
	bubble(t, rt, func(t *testing.T, b *bench) {
		session := b.session()
		old := b.bind("a")
		b.bind("never")
		kept := b.bind("k", keep)
		b.pass(time.Second)
		b.store.set(true)
		b.pass(time.Minute)
		if b.session() != 0 {
			t.Fatal("the session is not over")
		}
		tries := started.Load()
		b.store.set(false)
		b.pass(3 * time.Second)
		if now := b.session(); now == 0 || now == session {
			t.Fatalf("session %d, was %d", now, session)
		}
		if got := b.runtime.Running(); len(got) != 1 || got[0] != kept || b.left() != 1 {
			t.Errorf("%v run, want what is kept alone", got)
		}
		// The scheduler is slow: the old bindings must not run again.
		b.pass(time.Minute)
		if b.runtime.Runs()[old] != 1 || started.Load() != tries {
			t.Error("a binding of the old session was run again, or at last")
		}
		b.release("a")
		b.bind("b")
		synctest.Wait()
		b.alive(2)
	})
}

// TestStoppedBeforeAlive tests the order in which a lost node comes back.
func TestStoppedBeforeAlive(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		b.bind("a")
		synctest.Wait()
		b.crash()
		b.pass(time.Minute)
		b.alive(1)
		b.runtime.SetDown(true)
		b.start()
		b.pass(time.Minute)
		if b.session() != 0 {
			t.Fatal("alive, while what runs could not be stopped")
		}
		b.runtime.SetDown(false)
		b.pass(5 * time.Second)
		if b.session() == 0 || len(b.runtime.Running()) != 0 {
			t.Error("session", b.session(), "running", b.runtime.Running())
		}
	})
}

// TestRestartedWithoutStore tests a restarted agent that cannot reach the store: the deadline of
// its predecessor still counts.
func TestRestartedWithoutStore(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		id := b.bind("a")
		kept := b.bind("k", keep)
		b.pass(time.Second)
		b.crash()
		b.store.set(true)
		b.start()
		b.pass(10 * time.Second)
		b.alive(2) // An error of the store alone kills nothing.
		b.pass(4 * time.Second)
		if got := b.runtime.Running(); len(got) != 1 || got[0] != kept {
			t.Fatalf("%v run, want what is kept alone", got)
		}
		b.pass(time.Minute)
		b.store.set(false)
		b.pass(3 * time.Second)
		if b.session() == 0 || b.runtime.Runs()[id] != 1 {
			t.Error("not back, or run again")
		}
	})
}

// leaving is a store that gets out of the agent's reach when the agent reads a range.
type leaving struct {
	*flaky
	prefix string
}

func (l *leaving) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	if opts.Prefix == l.prefix {
		l.mu.Lock()
		l.down = true
		l.cut()
		l.mu.Unlock()
	}
	return l.flaky.List(ctx, opts)
}

// TestResumedBlind tests a restarted agent that resumes its session, and then cannot read what is
// bound: nothing outlives the session.
func TestResumedBlind(t *testing.T) {
	for _, kind := range []controlplane.Kind{controlplane.Reports, controlplane.Bindings} {
		bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
			b.bind("a")
			kept := b.bind("k", keep)
			b.pass(time.Second)
			b.crash()
			b.cfg.Store = &leaving{b.store, controlplane.Prefix(kind, "n1")}
			b.start()
			b.pass(10 * time.Second)
			b.alive(2)
			b.pass(4 * time.Second)
			if got := b.runtime.Running(); len(got) != 1 || got[0] != kept {
				t.Errorf("without %s: %v run, want what is kept alone", kind, got)
			}
		})
	}
}

func TestRestored(t *testing.T) {
	for name, restore := range map[string]func(b *bench){
		"another epoch": func(b *bench) { b.put(controlplane.EpochKey(), &types.Leader{Holder: "2"}) },
		"an older revision": func(b *bench) {
			path := filepath.Join(b.cfg.StateDir, "session.json")
			text, err := os.ReadFile(path)
			if err != nil {
				b.t.Fatal(err)
			}
			if err := os.WriteFile(path, replaceRevision(text), 0o600); err != nil {
				b.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
				b.put(controlplane.EpochKey(), &types.Leader{Holder: "1"})
				b.pass(time.Minute)
				session := b.session()
				b.bind("a")
				b.bind("k", keep)
				b.pass(10 * time.Second)
				b.alive(2)
				b.crash()
				restore(b)
				b.start()
				b.pass(3 * time.Second)
				if now := b.session(); now == session || now == 0 {
					t.Errorf("session %d, was %d", now, session)
				}
			})
		})
	}
}

func TestRestoredWhileRunning(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		b.put(controlplane.EpochKey(), &types.Leader{Holder: "1"})
		b.pass(time.Minute)
		session := b.session()
		id := b.bind("a")
		b.pass(time.Second)
		b.put(controlplane.EpochKey(), &types.Leader{Holder: "2"})
		b.pass(b.cfg.TTL + time.Second)
		if now := b.session(); now == session || now == 0 {
			t.Errorf("session %d, was %d", now, session)
		}
		if len(b.runtime.Running()) != 0 || b.runtime.Runs()[id] != 1 {
			t.Error("it runs on, or again", b.runtime.Runs())
		}
	})
}

// TestTwin tests a second agent of the same name: it waits, and leaves the containers of the first
// alone.
func TestTwin(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		session := b.session()
		b.bind("a")
		synctest.Wait()
		twin := &bench{t: t, store: b.store, runtime: b.runtime, cfg: b.cfg, began: b.began}
		twin.cfg.StateDir = t.TempDir()
		twin.start()
		defer twin.crash()
		b.pass(time.Minute)
		b.alive(1)
		if b.session() != session {
			t.Error("the session was taken over")
		}
		b.crash()
		b.pass(time.Minute)
		if b.session() == session {
			t.Error("the session outlasts its agent")
		}
	})
}

func TestNoStateDir(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		b.crash()
		b.cfg.StateDir = ""
		b.pass(time.Minute)
		b.start()
		id := b.bind("a")
		b.pass(time.Second)
		b.crash()
		b.start()
		b.pass(time.Minute)
		if b.session() == 0 || len(b.runtime.Running()) != 0 || b.runtime.Runs()[id] != 1 {
			t.Error("session", b.session(), b.runtime.Runs())
		}
	})
}

func TestConfig(t *testing.T) {
	good := nodeagent.Config{Store: newFlaky(), Runtime: simruntime.New(simruntime.Config{}), Cluster: "c", Node: "n1"}
	for name, edit := range map[string]func(*nodeagent.Config){
		"no store":          func(c *nodeagent.Config) { c.Store = nil },
		"no runtime":        func(c *nodeagent.Config) { c.Runtime = nil },
		"no cluster":        func(c *nodeagent.Config) { c.Cluster = "" },
		"a slash":           func(c *nodeagent.Config) { c.Node = "a/b" },
		"not physical":      func(c *nodeagent.Config) { c.Capacity = types.NewRequests(map[string]types.Quantity{"gang": 1}) },
		"a placement":       func(c *nodeagent.Config) { c.Capacity = types.NewRequests(map[string]types.Quantity{"node/x": 1}) },
		"a label":           func(c *nodeagent.Config) { c.Labels = []types.Label{{Name: "rack", Value: "r 1"}} },
		"a label twice":     func(c *nodeagent.Config) { c.Labels = []types.Label{{Name: "rack"}, {Name: "rack", Value: "r1"}} },
		"a short ttl":       func(c *nodeagent.Config) { c.TTL = time.Second },
		"a broken ttl":      func(c *nodeagent.Config) { c.TTL = 4500 * time.Millisecond },
		"relative":          func(c *nodeagent.Config) { c.StateDir = "x" },
		"too long a socket": func(c *nodeagent.Config) { c.SocketDir = "/" + string(make([]byte, 100)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			edit(&c)
			if _, err := nodeagent.New(c); !types.Is(err, types.Invalid) {
				t.Errorf("%v, want Invalid", err)
			}
		})
	}
	if _, err := nodeagent.New(good); err != nil {
		t.Error(err)
	}
}

// TestSuspension tests a machine that was suspended for longer than its session: attempts that must
// not outlive it end as soon as the machine is awake, not at the next renewal.
func TestSuspension(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		b.crash()
		var slept atomic.Int64
		awake := b.cfg.BootClock
		b.cfg.BootClock = func() time.Duration { return awake() + time.Duration(slept.Load()) }
		b.start()
		b.bind("a")
		b.pass(5*time.Second + time.Millisecond) // It has just been renewed.
		b.store.set(true)
		b.alive(1)
		slept.Store(int64(time.Hour))
		b.pass(1500 * time.Millisecond)
		b.alive(0)
	})
}

// TestSessionInPlaceOfJunk tests that an unreadable session is removed, but not a session that
// replaced it.
func TestSessionInPlaceOfJunk(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		b.crash()
		b.delete(controlplane.AliveKey("n1"))
		junk := controlplane.Txn{Ops: []controlplane.Op{{Key: controlplane.AliveKey("n1"), Value: []byte("junk")}}}
		if _, err := b.store.Store.Commit(t.Context(), junk); err != nil {
			t.Fatal(err)
		}
		came := false
		b.store.step = func(after bool) bool {
			var alive types.Alive
			if !after && !came && types.Decode(b.get(controlplane.AliveKey("n1")).Value, &alive) != nil {
				came = true
				b.put(controlplane.AliveKey("n1"), &types.Alive{TTLSeconds: 7})
			}
			return false
		}
		b.start()
		b.pass(time.Minute)
		var alive types.Alive
		if err := types.Decode(b.get(controlplane.AliveKey("n1")).Value, &alive); err != nil || !came || alive.TTLSeconds != 7 {
			t.Errorf("it came: %t; there is %+v, %v", came, alive, err)
		}
		b.delete(controlplane.AliveKey("n1"))
		b.pass(time.Minute)
	})
}
