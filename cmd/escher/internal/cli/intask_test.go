package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// TestInTask lists tasks and jobs by the socket of a task: as far as the socket serves the task.
func TestInTask(t *testing.T) {
	store := memstore.New()
	put := func(key string, v types.Message) {
		change := controlplane.NewChange(controlplane.NewBatch())
		change.Put(key, v)
		if res, err := controlplane.Commit(t.Context(), store, change.Txn()); err != nil || !res.Committed {
			t.Fatal(res, err)
		}
	}
	began := time.Now().Add(-3 * time.Hour).UnixNano()
	task := func(id, job string, index int, phase types.Phase) {
		info := types.Task{Name: "x", Job: job, Index: index, Submitted: began, Labels: types.LabelsOf(map[string]string{"team": id[:3]})}
		if job != "" {
			info.Count = 2
		}
		put(controlplane.TaskKey("d", id), &info)
		put(controlplane.StatusKey("d", id), &types.Status{Phase: phase, Node: "n1", Attempt: 1, Bound: began})
	}
	put(controlplane.NodeKey("n1"), &types.Node{})
	task("web-a1", "", 0, types.Running)
	task("web2-b2", "", 0, types.Succeeded)
	task("train-c3.0", "train-c3", 0, types.Running)
	task("train-c3.1", "train-c3", 1, types.Failed)
	task("load-d4.0", "load-d4", 0, types.Succeeded)
	put(controlplane.JobKey("d", "train-c3"), &types.Job{Name: "train", Tasks: 2, Submitted: began, Labels: types.LabelsOf(map[string]string{"team": "tra"})})
	put(controlplane.JobKey("d", "load-d4"), &types.Job{Name: "load", Tasks: 1, Submitted: began})

	for mode, lines := range map[types.Socket]map[string]string{types.SocketNamespace: inTask(), types.SocketSelf: ofItself()} {
		dir := filepath.Join(t.TempDir(), "s")
		client, err := controlplane.New(store, "d")
		if err != nil {
			t.Fatal(err)
		}
		s, err := tasksocket.Listen(tasksocket.Config{
			Dir: dir, Client: client, API: rest.ForTasks(rest.Config{Store: store, Now: time.Now}), Mode: mode,
			Self: tasksocket.Self{Namespace: "d", Task: "web-a1", Attempt: 1, Node: "n1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		env := map[string]string{"ESCHER_SOCKET": filepath.Join(dir, tasksocket.Name), "ESCHER_NAMESPACE": "d", "HOME": dir}
		escher := func(line string) string {
			var out strings.Builder
			Main(strings.Fields(line), cmdutil.Outside{In: strings.NewReader(""), Out: &out, Err: &out, Getenv: func(name string) string { return env[name] }, Executable: os.Executable})
			return strings.Join(strings.Fields(out.String()), " ")
		}
		for line, want := range lines {
			if got := escher(line); got != want {
				t.Errorf("socket %s: escher %s: %q, want %q", mode, line, got, want)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// inTask are commands in a task, with what they print.
func inTask() map[string]string {
	return map[string]string{
		"ps -o name":                 "train-c3.0 web-a1",
		"ps":                         "TASK PHASE NODE AGE EXIT REASON train-c3.0 running n1 3h - - web-a1 running n1 3h - -",
		"ps -a -o name":              "load-d4.0 train-c3.0 train-c3.1 web-a1 web2-b2",
		"ps -a -l team=web -o name":  "web-a1 web2-b2",
		"ps -l team=none":            "TASK PHASE NODE AGE EXIT REASON escher: no task in namespace d matches team=none",
		"ps --limit 1 -a -o name":    "load-d4.0 escher: these are the newest 1; 4 more: --limit 0 lists all",
		"ps web -o name":             "web-a1",
		"ps we -o name":              "web-a1 web2-b2",
		"ps train load-d4.0 -o name": "load-d4.0 train-c3.0 train-c3.1",
		"ps --job train -o name":     "train-c3.0",
		"ps nothing":                 `escher: there is no task or job "nothing": escher ps -a and escher jobs -a list tasks and jobs`,
		"ps --job web":               `escher: there is no job "web": escher ps -a and escher jobs -a list tasks and jobs`,
		"jobs -o name":               "train-c3",
		"jobs":                       "JOB NAME PHASE TASKS PENDING RUNNING SUCCEEDED FAILED CANCELLED AGE train-c3 train running 2 0 1 0 1 0 3h",
		"jobs -a -o name":            "load-d4 train-c3",
		"jobs -a -l team=tra":        "JOB NAME PHASE TASKS PENDING RUNNING SUCCEEDED FAILED CANCELLED AGE train-c3 train running 2 0 1 0 1 0 3h",
		"jobs load -o name":          "load-d4",
		"auth whoami":                "subject: task:d/web-a1",
		"ps -w":                      "escher: reach the cluster: a task can only use set-resource, state, nodes, resources, ps, jobs, run, submit, wait and stop, without -w: run this command outside",
		"auth ls":                    "escher: listRights: the socket of a task does not serve it: ask a server, with a token",
	}
}

// ofItself are commands in a task that may ask about itself alone.
func ofItself() map[string]string {
	return map[string]string{
		"ps":          "escher: listTasks: this task may ask about itself alone: launch it with socket: namespace",
		"jobs -a":     "escher: listJobs: this task may ask about itself alone: launch it with socket: namespace",
		"auth whoami": "subject: task:d/web-a1",
	}
}
