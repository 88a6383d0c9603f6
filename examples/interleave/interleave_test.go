// Package interleave_test tries the helper of this example with a real task socket.
package interleave_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// python is that of Debian.
const python = "/usr/bin/python3"

// node is a node with the sockets of two tasks that share a device.
type node struct {
	t       *testing.T
	store   *memstore.Store
	sockets [2]string
}

func newNode(t *testing.T) *node {
	n := &node{t: t, store: memstore.New()}
	client, err := controlplane.New(n.store, "d")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	bounds, done := tasksocket.NewBounds(), make(chan struct{})
	api := rest.ForTasks(rest.Config{Store: n.store, Now: time.Now})
	for i := range n.sockets {
		dir := filepath.Join(t.TempDir(), "s")
		s, err := tasksocket.Listen(tasksocket.Config{Dir: dir, Client: client, Bounds: bounds, API: api, Self: tasksocket.Self{Namespace: "d", Task: fmt.Sprint("t", i), Attempt: 1, Node: "n1"}})
		if err != nil {
			t.Fatal(err)
		}
		n.sockets[i] = filepath.Join(dir, tasksocket.Name)
		go func() {
			_ = s.Run(ctx) // it ends with ctx
			done <- struct{}{}
		}()
	}
	t.Cleanup(func() { cancel(); <-done; <-done })
	return n
}

// rotate creates the rotation of the device.
func (n *node) rotate(phases ...string) {
	c := controlplane.NewChange(1)
	for _, phase := range phases {
		c.Put(controlplane.ResourceKey("d", "gpus.interleave.turn.n1gpu0."+phase, "n1"), &types.Resource{Capacity: 1000})
	}
	if _, err := n.store.Commit(n.t.Context(), c.Txn()); err != nil {
		n.t.Fatal(err)
	}
}

// task starts a program of a task, and returns a function that waits for its end.
func (n *node) task(i int, env string, args ...string) (cmd *exec.Cmd, out func() string) {
	n.t.Helper()
	cmd = exec.CommandContext(n.t.Context(), python, args...)
	cmd.Env = append(os.Environ(), "ESCHER_SOCKET="+n.sockets[i], "ESCHER_DEVICES=escher.dev/gpu=n1-gpu0", "PYTHONDONTWRITEBYTECODE=1", env)
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	return cmd, func() string {
		_ = cmd.Wait() // the text says what went wrong
		return text.String()
	}
}

// TestPhases: two trainings are never in the same phase at once, and with a rotation each takes little
// longer than alone.
func TestPhases(t *testing.T) {
	n := newNode(t)
	n.rotate("data", "compute")
	_, first := n.task(0, "PHASES=data=10ms,compute=10ms", "train.py")
	_, second := n.task(1, "PHASES=data=10ms,compute=10ms", "train.py")
	var logs []string
	for _, text := range []string{first(), second()} {
		if strings.Count(text, "phase ") != 40 || !strings.Contains(text, "measured: data=1") {
			t.Fatal(text)
		}
		logs = append(logs, filepath.Join(t.TempDir(), "log"))
		if err := os.WriteFile(logs[len(logs)-1], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), python, "overlap.py", logs[0], logs[1]).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "data: 0.000 s") || !strings.Contains(string(out), "compute: 0.000 s") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestAlone: without a rotation, and without an agent, a task runs on.
func TestAlone(t *testing.T) {
	n := newNode(t)
	_, out := n.task(0, "PHASES=data=1ms", "train.py")
	if text := out(); strings.Count(text, "phase ") != 20 || !strings.Contains(text, "waited 0.0") {
		t.Error(text)
	}
	n.sockets[0] = filepath.Join(t.TempDir(), "none")
	_, out = n.task(0, "PHASES=data=1ms", "train.py")
	if text := out(); strings.Count(text, "phase ") != 20 {
		t.Error(text)
	}
}

// TestDeath: a task that is killed in a phase gives it up, and one that hangs in it after its limit.
func TestDeath(t *testing.T) {
	n := newNode(t)
	n.rotate("data")
	hang := "import time; from rotation import Rotation; r = Rotation('gpus', limit=%s)\nwith r.phase('data'): print('in', flush=True); time.sleep(60)"
	for name, limit := range map[string]string{"killed": "60", "hangs": "0.2"} {
		cmd, out := n.task(0, "", "-c", fmt.Sprintf(hang, limit))
		client, err := requests.AtSocket(n.sockets[1], "d", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		held := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			release, err := client.Hold(ctx, "gpus.interleave.turn.n1gpu0.data", 0)
			if err == nil {
				release()
			}
			return err != nil
		}
		for !held() { // until it is in its phase
		}
		if name == "killed" {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		_, after := n.task(1, "PHASES=data=1ms", "train.py")
		if text := after(); strings.Count(text, "phase ") != 20 {
			t.Errorf("%s: %s", name, text)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: its partner waited %s", name, took)
		}
		client.Close()
		_ = cmd.Process.Kill() // it may have been killed
		out()
	}
}
