// Package integrations_test runs the programs of this example against a cluster within the test. It kills each of
// them again and again while tasks run, and compares what it has told with the store.
package integrations_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// python is that of Debian, which finds the packages of Debian: deploy/deps.sh test installs both.
const python = "/usr/bin/python3"

// namespace is the one of all tests.
const namespace = "team"

// change is a change of a task.
type change struct {
	revision int64
	task     string
}

// world is a cluster, and the programs that follow it.
type world struct {
	t *testing.T
	// ctx ends what hangs.
	ctx     context.Context
	cluster *hollow.Cluster
	client  *esl.Client
	// socket is that of the HTTP API, dir a directory for files.
	socket, dir string
	random      *rand.Rand
}

// newWorld starts a cluster on a store; nil means one in memory.
func newWorld(t *testing.T, store controlplane.Store) *world {
	t.Helper()
	seed := controlplane.NewBatch()
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, 0))}
	var err error
	if w.cluster, err = hollow.Start(t.Context(), hollow.Config{Nodes: hollow.Nodes(3, 4), Store: store}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	if w.client, err = w.cluster.Client(namespace); err != nil {
		t.Fatal(err)
	}
	w.socket = filepath.Join(w.dir, "api.sock")
	l, err := net.Listen("unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	api := &http.Server{Handler: rest.Handler(rest.Config{Store: w.cluster.Store, Now: time.Now}), ReadHeaderTimeout: time.Minute}
	served := make(chan error)
	go func() { served <- api.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(api.Close(), <-served); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return w
}

// next receives from a channel. ok is false if it is closed.
func next[T any](w *world, from <-chan T) (x T, ok bool) {
	w.t.Helper()
	select {
	case x, ok = <-from:
	case <-w.ctx.Done():
		w.t.Fatal("it takes too long")
	}
	return x, ok
}

// process is a running program.
type process struct {
	cmd *exec.Cmd
	// lines are what it prints, until it ends.
	lines chan string
}

// start starts a program with its file of this directory, on which the test depends.
func (w *world) start(env, file string, args ...string) *process {
	w.t.Helper()
	if _, err := os.Stat(file); err != nil {
		w.t.Fatal(err)
	}
	if filepath.Ext(file) == ".py" {
		args, file = append([]string{file}, args...), python
	}
	p := &process{cmd: exec.CommandContext(w.ctx, file, args...), lines: make(chan string, 10_000)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", env), w.t.Output()
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for all := bufio.NewReader(out); ; {
			line, err := all.ReadString('\n')
			if err != nil { // what it had begun to print is not a line
				break
			}
			p.lines <- line
		}
		_ = p.cmd.Wait() // it was killed
	}()
	return p
}

// kill kills a program.
func (p *process) kill() { _ = p.cmd.Process.Kill() } // it may have ended

// rest returns what a program prints until it is killed.
func (p *process) rest() (lines []string) {
	for line := range p.lines {
		lines = append(lines, line)
	}
	return lines
}

// task runs for some milliseconds, and ends with a code.
func task(milliseconds, code int) controlplane.Submission {
	return hollow.Task(100, "run", fmt.Sprintf("%dms", milliseconds), "exit", fmt.Sprint(code))
}

// launch launches tasks, some of which fail.
func (w *world) launch(n int) (ids []string) {
	w.t.Helper()
	for range n {
		launched, err := w.client.Launch(w.ctx, task(w.random.IntN(20), w.random.IntN(2)))
		if err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, launched.Tasks...)
	}
	return ids
}

// wait waits until tasks have ended.
func (w *world) wait(ids []string) {
	w.t.Helper()
	if _, err := w.client.Wait(w.ctx, controlplane.UntilEnded, ids...); err != nil {
		w.t.Fatal(err)
	}
}

// record has the ends of tasks, as the store has them.
type record struct {
	mu  sync.Mutex
	all map[change]string
	// enough is closed when there are as many as expected.
	enough chan struct{}
}

// has reports whether an end is recorded.
func (r *record) has(c change) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[c] != ""
}

// record records n ends from now on.
func (w *world) record(n int) *record {
	r := &record{all: make(map[change]string), enough: make(chan struct{})}
	enough := errors.New("there are enough")
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(w.ctx)
	running.Go(func() {
		err := controlplane.ListWatch(ctx, w.cluster.Store, controlplane.ListWatchOptions{Prefix: controlplane.Prefix(controlplane.Statuses, namespace)}, func(u controlplane.Update) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, e := range u.Events {
				var status types.Status
				if k, _ := controlplane.Parse(e.Key); controlplane.Read(e.KV, &status) && status.Phase.Ended() {
					r.all[change{e.ModRevision, k.ID}] = string(status.Phase)
				}
			}
			if len(r.all) >= n {
				return enough
			}
			return nil
		})
		if errors.Is(err, enough) {
			close(r.enough)
		}
	})
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
		w.t.Logf("%d ends of %d are recorded", len(r.all), n)
	})
	return r
}
