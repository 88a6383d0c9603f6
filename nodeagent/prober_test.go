package nodeagent_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// probes answers the commands of checks, and counts them.
type probes struct {
	mu sync.Mutex
	// answer is what the next ones do.
	answer func(ctx context.Context, w io.Writer) (int, error)
	// made counts the probes, under those under way, most the maximum under way at once.
	made, under, most int
}

func (p *probes) exec(ctx context.Context, _ string, x nodeagent.Process) (int, error) {
	p.mu.Lock()
	answer := p.answer
	p.made++
	p.under++
	p.most = max(p.most, p.under)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.under--
	}()
	if answer == nil {
		return 0, nil
	}
	return answer(ctx, x.Stdout)
}

// set sets what commands do from now on.
func (p *probes) set(answer func(ctx context.Context, w io.Writer) (int, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *probes) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// prints is a command that prints a text and exits with a code.
func prints(text string, code int) func(context.Context, io.Writer) (int, error) {
	return func(_ context.Context, w io.Writer) (int, error) {
		_, err := io.WriteString(w, text)
		return code, err
	}
}

// checking gives a task one check, of a command, changed by edit.
func checking(edit func(*types.Spec)) func(*types.Spec) {
	return func(s *types.Spec) {
		s.Checks = []types.Check{{Name: "alive", Exec: []string{"check"}}}
		edit(s)
	}
}

// writes counts the stored reports of a task.
func (b *bench) writes(task string) int {
	n, key := 0, controlplane.ReportKey("n1", "d", task, 1)
	for _, batch := range b.store.Events(2) {
		for _, e := range batch.Events {
			if e.Key == key && !e.Delete {
				n++
			}
		}
	}
	return n
}

func TestHealthIsReported(t *testing.T) {
	var p probes
	bubble(t, simruntime.Config{Exec: p.exec}, func(t *testing.T, b *bench) {
		b.bind("a", b.runs(checking(func(*types.Spec) {})))
		b.pass(999 * time.Millisecond)
		if r := b.expect("a", types.ReportRunning); r.Health != types.HealthStarting || p.count() != 0 {
			t.Errorf("%+v", r)
		}
		b.pass(time.Millisecond)
		if r := b.expect("a", types.ReportRunning); r.Health != types.Healthy || r.Reason != "" {
			t.Errorf("%+v", r)
		}
		p.set(prints("no\ndisk\n", 3))
		b.pass(30*time.Second - time.Millisecond)
		if r := b.expect("a", types.ReportRunning); r.Health != types.Healthy || p.count() != 3 {
			t.Errorf("after %d probes: %+v", p.count(), r)
		}
		b.pass(time.Millisecond)
		if r := b.expect("a", types.ReportRunning); r.Health != types.Unhealthy || r.Reason != "check alive: exit code 3: no disk" {
			t.Errorf("%+v", r)
		}
		p.set(nil)
		b.pass(30 * time.Second)
		if r := b.expect("a", types.ReportRunning); r.Health != types.Healthy || r.Reason != "" {
			t.Errorf("%+v", r)
		}
		b.alive(1)
		if want := "bound starting started healthy unhealthy healthy"; b.steps("a") != want {
			t.Errorf("%s, want %s", b.steps("a"), want)
		}
		before := b.writes("a")
		b.pass(time.Hour)
		if n := b.writes("a") - before; n != 0 {
			t.Errorf("%d writes of a task that is healthy", n)
		}
	})
}

// TestFlapping tests that a task that alternates between healthy and unhealthy causes at most two
// reports a minute.
func TestFlapping(t *testing.T) {
	var p probes
	var n atomic.Int64
	p.set(func(context.Context, io.Writer) (int, error) { return int(n.Add(1) % 2), nil })
	bubble(t, simruntime.Config{Exec: p.exec}, func(t *testing.T, b *bench) {
		b.bind("a", b.runs(checking(func(s *types.Spec) { s.Checks[0].Failures, s.Checks[0].Every = 1, time.Second })))
		b.pass(10 * time.Minute)
		if got := b.writes("a"); got < 10 || got > 22 || p.count() != 600 {
			t.Errorf("%d writes of %d probes", got, p.count())
		}
	})
}

// TestUnhealthyRestarts tests that a process ends at a failed check with that setting, and restarts
// as its policy permits.
func TestUnhealthyRestarts(t *testing.T) {
	var p probes
	p.set(prints("stuck", 1))
	rt := simruntime.Config{Exec: p.exec, Script: func(nodeagent.Container) (simruntime.Behaviour, error) {
		return simruntime.Behaviour{Forever: true, StopAfter: time.Second}, nil
	}}
	for name, c := range map[string]struct {
		restart *types.Restart
		reason  string
		runs    int
	}{
		"never": {nil, "unhealthy: check alive: exit code 1: stuck", 1},
		"twice": {&types.Restart{When: types.RestartOnFailure, Limit: 2}, "unhealthy: check alive: exit code 1: stuck, after 2 restarts", 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, rt, func(t *testing.T, b *bench) {
				b.bind("a", b.runs(checking(func(s *types.Spec) { s.Restart, s.Checks[0].Then = c.restart, types.ThenRestart })))
				if c.restart != nil {
					b.pass(22 * time.Second) // probes after 1, 11 and 21 s, and a second to end
					want := "unhealthy: check alive: exit code 1: stuck: restarts in 1s (1 of 2)"
					if r := b.expect("a", types.ReportRunning); r.Reason != want || r.Restarts != 1 || r.ExitCode != 0 || r.Health != types.HealthStarting {
						t.Errorf("%+v", r)
					}
				}
				b.pass(2 * time.Minute)
				if r := b.expect("a", types.ReportExited); r.Reason != c.reason || r.ExitCode != 0 || r.Stopped || r.Restarts != c.runs-1 {
					t.Errorf("%+v", r)
				}
				if len(b.runtime.Runs()) != c.runs {
					t.Error(b.runtime.Runs())
				}
				if c.restart == nil && b.steps("a") != "bound starting started unhealthy signalled exited" {
					t.Error(b.steps("a"))
				}
			})
		})
	}
}

// TestUnhealthyAcrossCrash tests an agent that restarts while it ends an unhealthy process: the end
// counts as unhealthy, even if it came meanwhile.
func TestUnhealthyAcrossCrash(t *testing.T) {
	for name, away := range map[string]time.Duration{"ends later": time.Second, "ended meanwhile": 6 * time.Second} {
		t.Run(name, func(t *testing.T) {
			var p probes
			p.set(prints("stuck", 1))
			rt := simruntime.Config{Exec: p.exec, Script: func(nodeagent.Container) (simruntime.Behaviour, error) {
				return simruntime.Behaviour{Forever: true, StopAfter: 3 * time.Second}, nil
			}}
			bubble(t, rt, func(t *testing.T, b *bench) {
				b.bind("a", b.runs(checking(func(s *types.Spec) {
					s.Restart, s.Checks[0].Then = &types.Restart{When: types.RestartOnFailure, Delay: time.Minute, MaxDelay: time.Minute}, types.ThenRestart
				})))
				b.pass(22 * time.Second)
				b.crash()
				b.pass(away)
				b.start()
				b.pass(8 * time.Second)
				want := "unhealthy: check alive: exit code 1: stuck: restarts in 1m0s (restart 1)"
				if r := b.expect("a", types.ReportRunning); r.Reason != want || r.Restarts != 1 {
					t.Errorf("%+v", r)
				}
				b.crash()
				b.start()
				p.set(nil)
				b.pass(70 * time.Second)
				if r := b.expect("a", types.ReportRunning); r.Health != types.Healthy || r.Restarts != 1 || r.Ended != 0 {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// TestChecksGoOn tests that a restarted agent makes checks again, and writes nothing without a
// change. The start period is that of the process.
func TestChecksGoOn(t *testing.T) {
	var p probes
	bubble(t, simruntime.Config{Exec: p.exec}, func(t *testing.T, b *bench) {
		b.bind("a", b.runs(checking(func(*types.Spec) {})))
		b.pass(5 * time.Second)
		before := b.writes("a")
		b.crash()
		made := p.count()
		b.pass(10 * time.Second)
		if p.count() != made {
			t.Error("probes without an agent")
		}
		b.start()
		if b.pass(30 * time.Second); p.count() < made+3 || b.writes("a") != before {
			t.Errorf("%d probes, %d writes", p.count()-made, b.writes("a")-before)
		}
		p.set(prints("", 1))
		b.bind("late", b.runs(checking(func(s *types.Spec) { s.Checks[0].StartPeriod = 20 * time.Second })))
		b.pass(5 * time.Second)
		b.crash()
		b.pass(10 * time.Second)
		b.start()
		b.pass(24 * time.Second) // the probes 20 and 30 s after its start count
		if r := b.expect("late", types.ReportRunning); r.Health != types.HealthStarting {
			t.Errorf("%+v", r)
		}
		b.pass(2 * time.Second)
		if r := b.expect("late", types.ReportRunning); r.Health != types.Unhealthy {
			t.Errorf("%+v", r)
		}
	})
}

// TestUnknownIsNotUnhealthy tests that a missing answer of the runtime is not a failed probe.
func TestUnknownIsNotUnhealthy(t *testing.T) {
	var p probes
	bubble(t, simruntime.Config{Exec: p.exec}, func(t *testing.T, b *bench) {
		b.bind("a", b.runs(checking(func(s *types.Spec) { s.Checks[0].Then = types.ThenRestart })))
		b.pass(5 * time.Second)
		b.runtime.SetDown(true)
		b.pass(10 * time.Minute)
		b.runtime.SetDown(false)
		p.set(func(context.Context, io.Writer) (int, error) { return 0, types.Errorf(types.Unavailable, "no answer") })
		b.pass(10 * time.Minute)
		if r := b.expect("a", types.ReportRunning); r.Health != types.Healthy || r.Restarts != 0 {
			t.Errorf("%+v", r)
		}
		p.set(func(context.Context, io.Writer) (int, error) { return 0, types.Errorf(types.NotFound, "no check") })
		b.pass(time.Minute)
		if r := b.expect("a", types.ReportExited); r.Reason != "unhealthy: check alive: no check" {
			t.Errorf("%+v", r)
		}
	})
}

// TestLateProbe tests that the result of a probe does not count for the next process.
func TestLateProbe(t *testing.T) {
	var p probes
	p.set(func(context.Context, io.Writer) (int, error) {
		p.set(nil)
		time.Sleep(time.Minute) // regardless of its context
		return 1, nil
	})
	rt := simruntime.Config{Exec: p.exec, Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		return simruntime.Behaviour{Run: 5 * time.Second, Code: 1, Forever: c.Restart > 0}, nil
	}}
	bubble(t, rt, func(t *testing.T, b *bench) {
		b.bind("a", b.runs(checking(func(s *types.Spec) {
			again(s)
			s.Checks[0].Failures, s.Checks[0].Timeout, s.Checks[0].Then = 1, 2*time.Minute, types.ThenRestart
		})))
		b.pass(2 * time.Minute)
		if r := b.expect("a", types.ReportRunning); r.Health != types.Healthy || r.Restarts != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// wires answers connections with answer.
type wires struct {
	mu     sync.Mutex
	asked  []string
	answer func(net.Conn)
	refuse error
}

func (w *wires) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, network+" "+address)
	if w.refuse != nil {
		return nil, w.refuse
	}
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		w.answer(far)
	}()
	return near, nil
}

// TestPortChecks tests connections and requests.
func TestPortChecks(t *testing.T) {
	says := func(status, body string) func(net.Conn) {
		return func(c net.Conn) {
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			if r.Method != http.MethodGet || r.URL.String() != "/healthz?a=b" || r.Host != "127.0.0.1:20007" {
				status, body = "500 Wrong", fmt.Sprintf("%s %s of %s", r.Method, r.URL, r.Host)
			}
			fmt.Fprintf(c, "HTTP/1.1 %s\r\nLocation: http://elsewhere/\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
		}
	}
	silent := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	request := types.Check{Name: "web", HTTP: &types.HTTPCheck{Port: "http", Path: "/healthz?a=b"}}
	created := types.Check{Name: "web", HTTP: &types.HTTPCheck{Port: "http", Path: "/healthz?a=b", Status: 201}}
	connection := types.Check{Name: "db", TCP: &types.TCPCheck{Port: "5432"}}
	for name, c := range map[string]struct {
		check types.Check
		wires *wires
		want  string // the reason; "" means healthy
	}{
		"answered":          {request, &wires{answer: says("200 OK", "fine")}, ""},
		"sent on":           {request, &wires{answer: says("302 Found", "")}, ""},
		"failed":            {request, &wires{answer: says("503 No", strings.Repeat("no disk ", 100))}, "check web: status 503: " + strings.Repeat("no disk ", 25)},
		"the right status":  {created, &wires{answer: says("201 Created", "")}, ""},
		"another status":    {created, &wires{answer: says("200 OK", "")}, "check web: status 200"},
		"no answer":         {request, &wires{answer: silent}, "check web: no answer within 2s"},
		"greets":            {connection, &wires{answer: func(c net.Conn) { fmt.Fprint(c, "hello") }}, ""},
		"nonsense":          {request, &wires{answer: func(c net.Conn) { fmt.Fprint(c, "hello\r\n\r\n") }}, "check web: "},
		"refused":           {request, &wires{refuse: syscall.ECONNREFUSED}, "check web: connection refused"},
		"connected":         {connection, &wires{answer: silent}, ""},
		"not connected":     {connection, &wires{refuse: syscall.ECONNREFUSED}, "check db: connection refused"},
		"not there at once": {connection, &wires{refuse: context.DeadlineExceeded}, "check db: no answer within 2s"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
				b.crash()
				b.cfg.Dial = c.wires.dial
				b.start()
				b.bind("a", b.runs(func(s *types.Spec) {
					s.Ports, s.Checks = []types.TaskPort{{Name: "http"}}, []types.Check{c.check}
				}), func(x *types.Binding) {
					x.Holds = []types.Holding{{Resource: types.Port, Amount: 1000, Devices: []types.DeviceShare{{ID: "20007", Share: 1000}}}}
				})
				b.pass(25 * time.Second)
				want := types.Healthy
				if c.want != "" {
					want = types.Unhealthy
				}
				if r := b.expect("a", types.ReportRunning); r.Health != want || !strings.HasPrefix(r.Reason, strings.TrimSpace(c.want)) {
					t.Errorf("%+v, want %s", r, c.want)
				}
				port := "tcp 127.0.0.1:20007"
				if c.check.TCP != nil {
					port = "tcp 127.0.0.1:5432"
				}
				c.wires.mu.Lock()
				defer c.wires.mu.Unlock()
				if slices.ContainsFunc(c.wires.asked, func(s string) bool { return s != port }) || len(c.wires.asked) != 3 {
					t.Error(c.wires.asked)
				}
			})
		})
	}
}

// TestWarning tests that the warning comes before a known end and before a stop, once, and the stop
// signal that much later.
func TestWarning(t *testing.T) {
	warns := func(s *types.Spec) { s.Warn = &types.Warn{Signal: "SIGUSR1", Before: 20 * time.Second} }
	usr1, term, kill := syscall.SIGUSR1, syscall.SIGTERM, syscall.SIGKILL
	stop := func(grace time.Duration) func(*bench) {
		return func(b *bench) { b.stop("a", types.Stop{Reason: "enough", Grace: grace}) }
	}
	restart := func(b *bench) { b.crash(); b.start() }
	nothing := func(*bench) {}
	for name, c := range map[string]struct {
		edit func(*types.Binding)
		// at are the actions by time in seconds, in order; sent are the signals by time in seconds.
		at   map[int]func(*bench)
		sent map[int][]syscall.Signal
	}{
		"its end is known": {func(x *types.Binding) { x.MaxRun = time.Minute }, nil, map[int][]syscall.Signal{
			39: nil, 40: {usr1}, 59: {usr1}, 60: {usr1, term}, 63: {usr1, term}, 64: {usr1, term, kill},
		}},
		"stopped": {nil, map[int]func(*bench){5: stop(0)}, map[int][]syscall.Signal{5: {usr1}, 24: {usr1}, 25: {usr1, term}, 29: {usr1, term, kill}}},
		"and the agent begins anew": {nil, map[int]func(*bench){5: stop(0), 10: restart, 12: restart}, map[int][]syscall.Signal{
			24: {usr1}, 25: {usr1, term}, 29: {usr1, term, kill},
		}},
		"begins anew before it knows": {nil, map[int]func(*bench){4: func(b *bench) { b.crash(); stop(0)(b) }, 9: (*bench).start}, map[int][]syscall.Signal{
			8: nil, 9: {usr1}, 28: {usr1}, 29: {usr1, term},
		}},
		"stopped in a hurry": {nil, map[int]func(*bench){5: stop(time.Second)}, map[int][]syscall.Signal{5: {term}, 6: {term, kill}}},
		"in a hurry later":   {nil, map[int]func(*bench){5: stop(0), 8: stop(2 * time.Second)}, map[int][]syscall.Signal{7: {usr1}, 8: {usr1, term}, 10: {usr1, term, kill}}},
		"in a hurry at last": {nil, map[int]func(*bench){5: stop(4 * time.Second), 26: stop(controlplane.NoGrace)}, map[int][]syscall.Signal{25: {usr1, term}, 26: {usr1, term, kill}}},
		"cut off":            {nil, map[int]func(*bench){5: stop(0), 6: func(b *bench) { b.store.set(true) }}, map[int][]syscall.Signal{5: {usr1}, 21: {usr1, term, kill}}},
		"left alone":         {nil, map[int]func(*bench){5: nothing}, map[int][]syscall.Signal{100: nil}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, does(simruntime.Behaviour{Forever: true, Deaf: true}), func(t *testing.T, b *bench) {
				if c.edit == nil {
					c.edit = func(*types.Binding) {}
				}
				id := b.bind("a", b.runs(warns), c.edit)
				synctest.Wait()
				for second := range 101 {
					if do := c.at[second]; do != nil {
						do(b)
						synctest.Wait()
					}
					if want, ok := c.sent[second]; ok && !slices.Equal(b.runtime.Signals(id), want) {
						t.Errorf("after %d s it got %v, want %v", second, b.runtime.Signals(id), want)
					}
					b.pass(time.Second)
				}
			})
		})
	}
}

// TestEndsWhenWarned tests that a process which ends at the warning of a stop was stopped, and that
// one which ends at the warning of its limit has ended by itself.
func TestEndsWhenWarned(t *testing.T) {
	for name, stopped := range map[string]bool{"stopped": true, "in time": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
				id := b.bind("a", b.runs(func(s *types.Spec) {
					s.Warn = &types.Warn{Signal: "SIGUSR1", Before: 20 * time.Second}
				}), func(x *types.Binding) { x.MaxRun = time.Minute })
				b.pass(45 * time.Second)
				if stopped {
					b.stop("a", types.Stop{Evicted: true})
					synctest.Wait()
				}
				if err := b.runtime.Finish(id, 0); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if r := b.expect("a", types.ReportExited); r.Stopped != stopped || r.Reason != "" {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}
