package show

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

// TestUsageSentences leaves out what a node does not know.
func TestUsageSentences(t *testing.T) {
	mi := func(n int64) *int64 { return new(n << 20) }
	for _, x := range []struct {
		sentence func(measured.Use) string
		use      measured.Use
		want     string
	}{
		{cpuSentence, measured.Use{}, ""},
		{cpuSentence, measured.Use{CPUMilli: new(250.0), CPUSeconds: new(3.0)}, "0.25 cores"},
		{cpuSentence, measured.Use{CPUSeconds: new(1.234), ThrottledSeconds: new(0.5)}, "1.23 s so far, 0.50 s held back by its limit"},
		{memorySentence, measured.Use{MemoryLimitBytes: mi(64)}, ""},
		{memorySentence, measured.Use{MemoryBytes: mi(16), MemoryRSSBytes: mi(8), OOMKills: new(int64(0))}, "16Mi; 8.0Mi without files"},
		{
			memorySentence, measured.Use{MemoryBytes: mi(16), MemoryRSSBytes: mi(8), MemoryLimitBytes: mi(64), MemoryPeakBytes: mi(32), OOMKills: new(int64(2))},
			"16Mi, 25% of 64Mi; 8.0Mi without files, at most 32Mi so far; processes killed for lack of it: 2",
		},
		{diskSentence, measured.Use{IOWriteBytes: mi(1)}, ""},
		{diskSentence, measured.Use{IOReadBytes: mi(1), IOWriteBytes: mi(0)}, "1.0Mi read, 0B written"},
		{
			diskSentence, measured.Use{IOReadBytes: mi(1), IOWriteBytes: mi(2), IOReadBytesPerSecond: new(512.0), IOWriteBytesPerSecond: new(2048.0)},
			"reads 512B/s, writes 2.0Ki/s; 1.0Mi read, 2.0Mi written",
		},
	} {
		if got := x.sentence(x.use); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
	for want, d := range map[string]measured.Device{
		"g0: nothing is known": {ID: "g0"},
		"g1: 40% busy, 1.0Mi/64Mi of memory used, 512Ki by this task": {
			ID: "g1", BusyPercent: new(40.0), MemoryBytes: mi(1), MemoryTotalBytes: mi(64), TaskMemoryBytes: new(int64(512 << 10)),
		},
	} {
		if got := deviceSentence(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestCheckText shows the defaults of a check, and the details that differ from none.
func TestCheckText(t *testing.T) {
	for want, c := range map[string]types.Check{
		"cmd: run /bin/sh -c 'exit 0', every 10s, within 2s, 3 failures, then report": {Name: "cmd", Exec: []string{"/bin/sh", "-c", "exit 0"}},
		"http: GET web/, every 10s, within 2s, 3 failures, then report":               {Name: "http", HTTP: &types.HTTPCheck{Port: "web"}},
		"http: GET 80/up is 204, every 1m0s, within 2s, 1 failure, 2 successes, from 30s on, then restart": {
			Name: "http", HTTP: &types.HTTPCheck{Port: "80", Path: "/up", Status: 204}, Every: time.Minute, Failures: 1, Successes: 2,
			StartPeriod: 30 * time.Second, Then: types.ThenRestart,
		},
		"tcp: connect to db, every 10s, within 5s, 3 failures, then report": {Name: "tcp", TCP: &types.TCPCheck{Port: "db"}, Timeout: 5 * time.Second},
	} {
		if got := checkText(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWriteIsolation writes nothing about a spec of the defaults, and each limit that differs.
func TestWriteIsolation(t *testing.T) {
	for _, x := range []struct {
		spec types.Spec
		want []string
	}{
		{types.Spec{}, nil},
		{types.Spec{Pids: 5, CPULimit: types.CPUNone}, []string{"processes: at most 5", "cpu limit: none: what is requested is its share"}},
		{types.Spec{Privileged: true, CapAdd: []string{"NET_ADMIN"}}, []string{"rights: privileged: those of the node's root"}},
		{types.Spec{CapDrop: []string{"ALL"}}, []string{"capabilities: none"}},
		{types.Spec{CapDrop: []string{"ALL"}, CapAdd: []string{"NET_ADMIN"}}, []string{"capabilities: NET_ADMIN"}},
		{
			types.Spec{Shm: 1 << 30, Tmpfs: []types.Tmpfs{{Target: "/a"}, {Target: "/b", Size: 1 << 20}}, ReadOnlyRoot: true},
			[]string{"shared memory: 1Gi", "in memory: /a", "in memory: /b 1Mi", "root: read-only"},
		},
		{types.Spec{Secrets: []types.SecretUse{{Name: "db", Env: []string{"A=a", "B=b"}}, {Name: "tls", Dir: "/tls"}}}, []string{"secret: db in $A, $B", "secret: tls in /tls"}},
		{types.Spec{Socket: types.SocketNone}, []string{"task socket: none"}},
	} {
		var out strings.Builder
		s := render.NewSheet(&out)
		(&taskDescription{spec: &x.spec}).writeIsolation(s)
		if err := s.End(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			name, text, _ := strings.Cut(strings.TrimSpace(line), "  ")
			got = append(got, name+": "+strings.TrimSpace(text))
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%+v: %q, want %q", x.spec, got, x.want)
		}
	}
}

func TestInputText(t *testing.T) {
	for _, x := range []struct {
		stdin, tty bool
		want       string
	}{
		{false, false, ""},
		{true, false, "of a client"},
		{false, true, "none, with a terminal"},
		{true, true, "of a client, by a terminal"},
	} {
		if got := inputText(&types.Spec{Stdin: x.stdin, TTY: x.tty}); got != x.want {
			t.Errorf("%+v: %q", x, got)
		}
	}
}

// TestWithoutValues hides the values of variables, and leaves the spec that it was given as it is.
func TestWithoutValues(t *testing.T) {
	spec := &types.Spec{Image: "a", Env: []string{"TOKEN=a=b", "EMPTY=", "BARE"}}
	masked := withoutValues(spec)
	if want := []string{"TOKEN=…", "EMPTY=…", "BARE=…"}; !slices.Equal(masked.Env, want) || masked.Image != "a" || spec.Env[0] != "TOKEN=a=b" {
		t.Errorf("%+v of %+v", masked, spec)
	}
}

// TestSortTasks keeps the tasks of a job together, by index and then age.
func TestSortTasks(t *testing.T) {
	row := func(id, job string, index int, age time.Duration) TaskRow {
		return TaskRow{Task: document.Task{ID: id, Job: job, Index: &index}, Age: age}
	}
	rows := []TaskRow{
		{Task: document.Task{ID: "z"}}, row("j-3", "j", 10, 5), row("j-2", "j", 2, 5), row("j-9", "j", 2, 9), row("j-1", "j", 2, 5),
		{Task: document.Task{ID: "a"}, Age: 1},
	}
	sortTasks(rows)
	var got []string
	for _, r := range rows {
		got = append(got, r.ID)
	}
	if want := "a j-9 j-1 j-2 j-3 z"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestTaskCells checks the cells that say nothing of a task that they do not apply to.
func TestTaskCells(t *testing.T) {
	now := time.Now()
	alternatives := []types.Alternative{
		{Requests: types.NewRequests(map[string]types.Quantity{"gpu": 1000})}, {Requests: types.NewRequests(map[string]types.Quantity{"gpu": 2000})},
		{}, {},
	}
	for _, x := range []struct {
		row                       TaskRow
		exit, index, ports, needs string
		waits                     bool
	}{
		{row: TaskRow{Task: document.Task{Phase: types.Running, ExitCode: 1, Started: &now}}},
		{row: TaskRow{Task: document.Task{Phase: types.Pending, Retry: &now}}},
		{row: TaskRow{Task: document.Task{Phase: types.Succeeded}}, exit: "0"},
		{row: TaskRow{Task: document.Task{Phase: types.Failed, Started: &now}}, exit: "0"},
		{row: TaskRow{Task: document.Task{Phase: types.Failed, ExitCode: 137, Index: new(0)}}, exit: "137", index: "0"},
		{row: TaskRow{Task: document.Task{Ports: map[string]int{"b": 2, "a": 10}}}, ports: "a=10,b=2"},
		{row: TaskRow{Task: document.Task{Retry: new(now.Add(1))}}, waits: true},
		{row: TaskRow{Task: document.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 500}), Alternatives: alternatives}}, needs: "cpu=0.5; gpu=1 or gpu=2 or 2 more"},
		{row: TaskRow{Task: document.Task{Alternatives: alternatives[:2]}}, needs: "gpu=1 or gpu=2"},
	} {
		if r := x.row; r.exit() != x.exit || r.index() != x.index || types.PortsText(r.Ports) != x.ports || r.Needs() != x.needs || r.waitsForRetry(now) != x.waits {
			t.Errorf("%+v: %q, %q, %q, %q, %t", r, r.exit(), r.index(), types.PortsText(r.Ports), r.Needs(), r.waitsForRetry(now))
		}
	}
}

// TestHasPorts asks the store only about tasks that hold a port of a node.
func TestHasPorts(t *testing.T) {
	for _, x := range []struct {
		phase    types.Phase
		resource string
		want     bool
	}{
		{types.Running, "port", true},
		{types.Bound, "port@web", true},
		{types.Running, "port/8080@web", true},
		{types.Running, "port/8080", true},
		{types.Pending, "port", false},
		{types.Succeeded, "port", false},
		{types.Running, "port/0", false},
	} {
		row := TaskRow{Task: document.Task{Phase: x.phase, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1, x.resource: 1000})}}
		if row.hasPorts() != x.want {
			t.Errorf("%s, %s: %t", x.phase, x.resource, !x.want)
		}
	}
}
