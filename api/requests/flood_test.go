package requests_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

const (
	// floodedDir is the variable that makes this program the flooded agent.
	floodedDir = "ESCHER_TEST_FLOODED"
	// floodedMost is the most memory that the agent may have from the system at any time.
	floodedMost = 256 << 20
)

// TestFlood floods the sockets of one namespace in a separate process. Its memory stays bounded,
// and it serves the socket of another namespace meanwhile.
func TestFlood(t *testing.T) {
	if dir := os.Getenv(floodedDir); dir != "" {
		serveFlooded(t, dir)
		return
	}
	dir := t.TempDir()
	agent := exec.Command(os.Args[0], "-test.run", "^TestFlood$", "-test.v")
	agent.Env = append(os.Environ(), floodedDir+"="+dir, "GOGC=100")
	agent.Stderr = os.Stderr
	in, err := agent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agent.Process.Kill() }()
	lines := bufio.NewScanner(out)
	said(t, lines, "serving")

	ctx, cancel := context.WithCancel(t.Context())
	var flood, large sync.WaitGroup
	heads(ctx, t, &flood, filepath.Join(dir, "hostile-0", tasksocket.Name))
	alone := bodies(t, &large, filepath.Join(dir, "hostile-1", tasksocket.Name), filepath.Join(dir, "hostile-2", tasksocket.Name))
	over := make(chan struct{})
	go func() {
		large.Wait()
		alone()
		close(over)
	}()
	slowest := neighbor(t, filepath.Join(dir, "neighbor", tasksocket.Name), over)
	cancel()
	flood.Wait()
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	var peak int64
	if _, err := fmt.Sscan(said(t, lines, "peak"), &peak); err != nil {
		t.Fatal(err)
	}
	if err := agent.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("the agent had at most %d MiB from the system; the slowest answer to the neighbor took %s", peak>>20, slowest)
	if peak > floodedMost {
		t.Errorf("the agent had %d MiB from the system: more than %d", peak>>20, floodedMost>>20)
	}
}

// said waits for a line with a prefix, and returns the rest.
func said(t *testing.T, lines *bufio.Scanner, begin string) string {
	t.Helper()
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), begin); ok {
			return rest
		}
	}
	t.Fatalf("it ended before it said %q", begin)
	return ""
}

// serveFlooded serves the sockets until its input ends, and prints the memory that the process had
// from the system.
func serveFlooded(t *testing.T, dir string) {
	store, bounds := memstore.New(), tasksocket.NewBounds()
	change := controlplane.NewChange(1)
	change.Put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 2000})})
	change.Put(controlplane.AliveKey("n1"), &types.Alive{})
	if _, err := store.Commit(t.Context(), change.Txn()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := api(store)
	var sockets sync.WaitGroup
	for name, ns := range map[string]string{"hostile-0": "h", "hostile-1": "h", "hostile-2": "h", "neighbor": "d"} {
		c, err := controlplane.New(store, ns)
		if err != nil {
			t.Fatal(err)
		}
		s, err := tasksocket.Listen(tasksocket.Config{
			Dir: filepath.Join(dir, name), Client: c, Bounds: bounds, API: served,
			Self: tasksocket.Self{Namespace: ns, Task: name, Attempt: 1, Node: "n1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		sockets.Go(func() { _ = s.Run(ctx) })
	}
	fmt.Println("serving")
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	sockets.Wait()
	// Sys includes returned memory: it is the peak. It excludes the memory of the race detector.
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Println("peak", m.Sys)
}

// heads opens 4,000 connections, each of which sends a head of 1 MiB.
func heads(ctx context.Context, t *testing.T, all *sync.WaitGroup, path string) {
	const connections, small = 4000, 4 << 10
	head := append([]byte("GET /v1/whoami HTTP/1.1\r\nX: "), bytes.Repeat([]byte("x"), 1<<20)...)
	for range connections {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.UnixConn).SetWriteBuffer(small); err != nil {
			t.Fatal(err)
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		all.Go(func() { _, _ = conn.Write(head) })
	}
}

// bodies sends many bodies, 16 at a time to each socket: with as many elements as fit, and as many
// as are allowed. alone sends those again, one at a time, that were not read because others took
// the memory.
func bodies(t *testing.T, all *sync.WaitGroup, paths ...string) (alone func()) {
	list := func(before, element, after string, bytes int) string {
		return before + strings.Repeat(element+",", bytes/(1+len(element))) + element + after
	}
	const large = 4<<20 - 100
	requests := []struct{ path, body string }{
		{"/v1/namespaces/h/tasks", list(`{"tasks":[`, `{}`, `]}`, large)},
		{"/v1/namespaces/h/tasks", list(`{"tasks":[`, `{}`, `]}`, 16_000*3)},
		{"/v1/namespaces/h/tasks", list(`{"tasks":[`, `{"name":"`+strings.Repeat("x", 200)+`"}`, `]}`, large*4/5)},
		{"/v1/namespaces/h/transactions", list(`{"set":[`, `{}`, `]}`, large)},
		{"/v1/namespaces/h/transactions", list(`{"set":[`, `{}`, `]}`, 16_000*3)},
		{"/v1/namespaces/h/transactions", list(`{"unreserve":[`, `""`, `]}`, 190_000*3)},
		{"/v1/namespaces/h/tasks", strings.Repeat("[", large)},
	}
	answered := make([]atomic.Int64, len(requests))
	t.Cleanup(func() {
		for i := range answered {
			if answered[i].Load() == 0 {
				t.Errorf("no request of kind %d was answered as it should be", i)
			}
		}
	})
	for _, path := range paths {
		dial := func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }
		client := &http.Client{Transport: &http.Transport{DialContext: dial, MaxConnsPerHost: 100}}
		send := func(kind int) {
			r := requests[kind]
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+r.path, strings.NewReader(r.body))
			if err != nil {
				t.Error(err)
				return
			}
			res, err := client.Do(req)
			if err != nil {
				return // It was refused before it was sent completely.
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			switch res.StatusCode {
			case http.StatusBadRequest:
				answered[kind].Add(1)
			case http.StatusServiceUnavailable, http.StatusTooManyRequests: // others were served
			default:
				t.Errorf("%s: %d", r.path, res.StatusCode)
			}
		}
		for n := range 16 {
			all.Go(func() {
				for i := range 4 {
					send((i + n) % len(requests))
				}
			})
		}
		alone = func() {
			for kind := range requests {
				for try := 0; answered[kind].Load() == 0 && try < 100; try++ {
					send(kind)
				}
			}
		}
	}
	return alone
}

// neighbor sends requests to a neighbor's socket until the flood is over, and returns the time of
// the slowest answer.
func neighbor(t *testing.T, path string, over <-chan struct{}) (slowest time.Duration) {
	client, err := requests.AtSocket(path, "d", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	launch := requests.Launch{Tasks: []requests.Task{{Name: "x", Spec: requests.Spec{Image: "i"}}}}
	for i := 0; ; i++ {
		select {
		case <-over:
			return slowest
		case <-time.After(60 * time.Millisecond): // below the allowed rate
		}
		for _, ask := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := client.Self(ctx); return err },
			func(ctx context.Context) error { _, err := client.State(ctx, true); return err },
			func(ctx context.Context) error {
				_, err := client.Set(ctx, requests.Set{Name: fmt.Sprint("x", i), Capacity: "1"})
				return err
			},
			func(ctx context.Context) error { _, err := client.Launch(ctx, launch); return err },
		} {
			began := time.Now()
			// Even on a loaded machine, this is far below the effect of a flood.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := ask(ctx); err != nil {
				t.Errorf("the neighbor was refused: %v", err)
			}
			cancel()
			slowest = max(slowest, time.Since(began))
		}
	}
}
