package escher_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// serveUntil serves the socket of a task in a directory until the returned function ends it.
func serveUntil(t *testing.T, client *controlplane.Client, dir string) (end func()) {
	t.Helper()
	s, err := tasksocket.Listen(tasksocket.Config{API: rest.ForTasks(rest.Config{Store: client.Store(), Now: time.Now}), Dir: dir, Client: client, Self: tasksocket.Self{Namespace: "d", Task: "me", Node: "n1"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// lines are the lines of a log.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// put writes a value.
func put(t *testing.T, store controlplane.Store, key string, value types.Message) {
	t.Helper()
	c := controlplane.NewChange(1)
	c.Put(key, value)
	if _, err := store.Commit(t.Context(), c.Txn()); err != nil {
		t.Fatal(err)
	}
}

// TestAgentRestarts continues a wait and a watch in a task when the agent restarts.
func TestAgentRestarts(t *testing.T) {
	store, dir := memstore.New(), filepath.Join(t.TempDir(), "s")
	client, err := controlplane.New(store, "d")
	if err != nil {
		t.Fatal(err)
	}
	put(t, store, controlplane.TaskKey("d", "a"), &types.Task{Name: "a"})
	put(t, store, controlplane.StatusKey("d", "a"), &types.Status{Phase: types.Running, Attempt: 1, Node: "n1"})
	end := serveUntil(t, client, dir)
	log := make(lines, 10)
	env := environment{tasksocket.EnvSocket: filepath.Join(dir, tasksocket.Name)}
	c, err := escher.Connect(t.Context(), escher.WithEnvironment(env.get), escher.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waited := make(chan error, 1)
	go func() {
		ended, err := c.Wait(ctx, escher.UntilEnded, "a")
		if err == nil && ended["a"].Phase != types.Succeeded {
			err = errors.New("it has not succeeded")
		}
		waited <- err
	}()
	var phases []string
	for change, err := range c.Watch(ctx, "a") {
		if err != nil {
			t.Fatal(err)
		}
		phases = append(phases, string(change.Phase))
		if change.Phase == types.Succeeded {
			break
		}
		end()
		put(t, store, controlplane.StatusKey("d", "a"), &types.Status{Phase: types.Succeeded, Attempt: 1, Node: "n1"})
		if line := <-log; !strings.Contains(line, "connection lost, retrying") || !strings.Contains(line, "component=wait") {
			t.Errorf("it logged %s", line)
		}
		end = serveUntil(t, client, dir)
	}
	defer end()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if got := strings.Join(phases, " "); got != "running succeeded" {
		t.Errorf("the watch yielded %s", got)
	}
	if line := <-log; !strings.Contains(line, "component=watch") {
		t.Errorf("it logged %s", line)
	}
}
