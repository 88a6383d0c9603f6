//go:build linux

package watchdog

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/fence/execlog"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types/execution"
)

// TestMain makes this program the watchdog that tests start.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == Subcommand {
		if err := Run(context.Background(), os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// bench is a node with a directory, and real cgroups with processes.
type bench struct {
	t    *testing.T
	node Node
	page *Page
	// program runs in containers; "" means sleep.
	program string
	// of are the processes by container.
	of map[string]*exec.Cmd
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, of: make(map[string]*exec.Cmd)}
	dir := t.TempDir()
	b.node = Node{
		Name: "n1", StateDir: dir, Root: cgroup.DefaultRoot,
		Cgroups: cgroup.Layout{Driver: cgroup.Cgroupfs, Group: "escher-watchdog-" + strconv.Itoa(os.Getpid()) + "-" + filepath.Base(filepath.Dir(dir))},
	}
	var err error
	if b.page, err = OpenPage(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, cmd := range b.of {
			_ = cmd.Process.Kill() // It may be dead, as it should be.
			_ = cmd.Wait()         // So it is.
		}
		dirs, _ := cgroup.Dirs(b.node.Root, b.node.Cgroups.Parent())
		for _, d := range dirs {
			inner, _ := filepath.Glob(filepath.Join(d, "*"))
			for _, x := range inner {
				_ = syscall.Rmdir(x) // a file of the kernel
			}
			if err := syscall.Rmdir(d); err != nil {
				t.Errorf("remove %s: %v", d, err)
			}
		}
		if err := b.page.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// runs puts a process into the cgroup of a container, and logs its start.
func (b *bench) runs(id string) {
	b.t.Helper()
	if b.of[id] != nil {
		_ = b.of[id].Wait() // It was killed.
	}
	tree := filepath.Join(b.node.Root, "pids")
	if cgroup.Unified(b.node.Root) {
		tree = b.node.Root
	}
	dir := filepath.Join(tree, b.node.Cgroups.Path(id))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.Command(cmp.Or(b.program, "sleep"), "1h")
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.of[id] = cmd
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.started(id)
}

func (b *bench) started(id string) {
	b.t.Helper()
	r := execution.Record{Event: execution.Start, Container: id, Node: "n1", Namespace: "d", Task: id, Attempt: 1}
	r.Stamp(time.Now(), b.now(), BootID())
	if err := execlog.Append(b.node.StateDir, r); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) now() time.Duration { return new(alarm).now() }

// set sets a deadline some time from now.
func (b *bench) set(in time.Duration) {
	b.t.Helper()
	if err := b.page.Set(b.t.Context(), b.now()+in, BootID()); err != nil {
		b.t.Fatal(err)
	}
}

// running reports whether a container has processes.
func (b *bench) running(id string) bool {
	b.t.Helper()
	pids, err := cgroup.Procs(b.node.Root, b.node.Cgroups.Path(id))
	if err != nil {
		b.t.Fatal(err)
	}
	return len(pids) > 0
}

// await waits until a condition holds.
func (b *bench) await(what string, holds func() bool) {
	b.t.Helper()
	for began := time.Now(); !holds(); <-time.After(10 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			text, _ := os.ReadFile(filepath.Join(b.node.StateDir, logFile))
			b.t.Fatalf("waited in vain for: %s\n%s", what, text)
		}
	}
}

// noted returns the records of a container after its start.
func (b *bench) noted(id string) string {
	var events []string
	_, _ = execution.ReadFile(filepath.Join(b.node.StateDir, execution.Name), func(r execution.Record) {
		if r.Container == id && r.Event != execution.Start {
			events = append(events, string(r.Event))
		}
	})
	return strings.Join(events, " ")
}

func (b *bench) marked(id string) string {
	text, _ := os.ReadFile(filepath.Join(b.node.StateDir, EndingDir, id)) // may be missing
	return string(text)
}

func (b *bench) keep(ids string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.node.StateDir, SessionFile), []byte(`{"lease":7,"keep":[`+ids+`]}`), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// watch starts a watchdog. It returns the agent's end of its pipe, and a channel that yields when
// the watchdog ends.
func (b *bench) watch() (agent io.WriteCloser, ended chan string) {
	b.t.Helper()
	k := Keeper{Config: Config{Dir: b.node.StateDir, Nodes: []Node{b.node}}, Program: os.Args[0], Logger: zaptest.NewLogger(b.t)}
	p, err := k.start(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return p.agent, p.ended
}

// TestKillsByTheDeadline tests kills and their records at the deadline, and none before.
func TestKillsByTheDeadline(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%t", shared), func(t *testing.T) {
			b := newBench(t)
			b.node.Shared = shared
			b.set(time.Hour)
			b.keep(`"kept"`)
			for _, id := range []string{"a", "b", "kept"} {
				b.runs(id)
			}
			b.started("pulling") // and does not run
			agent, ended := b.watch()
			if err := os.MkdirAll(filepath.Join(b.node.StateDir, EndingDir), 0o700); err != nil {
				t.Fatal(err)
			}
			for id, text := range map[string]string{"b": "stopped", "a": "\n5\nwarned"} {
				if err := os.WriteFile(filepath.Join(b.node.StateDir, EndingDir, id), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if !b.running("a") || !b.running("b") {
				t.Fatal("killed an hour early")
			}
			if err := agent.Close(); err != nil { // like kill -9
				t.Fatal(err)
			}
			b.set(0)
			b.await("the deadline kills", func() bool { return !b.running("a") && !b.running("b") })
			b.await("it is noted", func() bool { return b.noted("a") == "kill" && b.noted("b") == "kill" && b.noted("pulling") == "end" })
			if b.marked("a") != Fenced || b.marked("b") != "stopped" || b.marked("kept") != "" {
				t.Errorf("marks %q, %q, %q", b.marked("a"), b.marked("b"), b.marked("kept"))
			}
			b.runs("a") // A start finishes late.
			b.await("what comes late is killed", func() bool { return !b.running("a") })
			if !b.running("kept") || b.noted("kept") != "" {
				t.Error("what is kept was killed")
			}
			b.stop(ended)
		})
	}
}

// TestHurries checks the policy of a watchdog's threads: on a busy machine it must not wait for other
// processes.
func TestHurries(t *testing.T) {
	b := newBench(t)
	b.set(time.Hour)
	_, ended := b.watch()
	defer b.stop(ended)
	pid, err := os.ReadFile(filepath.Join(b.node.StateDir, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob(filepath.Join("/proc", strings.TrimSpace(string(pid)), "task/*"))
	if err != nil || len(threads) == 0 {
		t.Fatalf("threads of %q: %v, %v", pid, threads, err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(filepath.Base(thread))
		if err != nil {
			t.Fatal(err)
		}
		attr, err := unix.SchedGetAttr(id, 0)
		if err != nil || attr.Policy != unix.SCHED_RR {
			t.Errorf("the policy of thread %d is %+v, %v", id, attr, err)
		}
	}
}

// TestLateFromItsStart starts the watchdog after the deadline. A container that runc had not let
// run yet is not recorded as run.
func TestLateFromItsStart(t *testing.T) {
	b := newBench(t)
	b.node.Shared = true
	b.set(-time.Second)
	b.runs("ran")
	b.program = filepath.Join(t.TempDir(), "runc:[2:INIT]")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.program, text, 0o700); err != nil {
		t.Fatal(err)
	}
	b.runs("waits")
	_, ended := b.watch()
	b.await("both are killed", func() bool { return b.noted("ran") == "kill" && b.noted("waits") == "kill" })
	b.stop(ended)
	_, err = execution.ReadFile(filepath.Join(b.node.StateDir, execution.Name), func(r execution.Record) {
		if r.Event == execution.Kill && r.Ran != (r.Container == "ran") {
			t.Errorf("%+v", r)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// stop ends the watchdog as the next one does.
func (b *bench) stop(ended chan string) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.node.StateDir, lockFile))
	if err != nil {
		b.t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		b.t.Fatal(err)
	}
	b.wait(ended)
}

func (b *bench) wait(ended chan string) {
	b.t.Helper()
	select {
	case how := <-ended:
		if how != "exit status 0" {
			text, _ := os.ReadFile(filepath.Join(b.node.StateDir, logFile))
			b.t.Errorf("the watchdog: %s\n%s", how, text)
		}
	case <-time.After(2 * time.Minute):
		b.t.Fatal("the watchdog does not end")
	}
}

// TestTakesOver tests that the next watchdog ends the last one, frozen or not, without a gap.
func TestTakesOver(t *testing.T) {
	b := newBench(t)
	b.set(time.Hour)
	b.runs("a")
	_, first := b.watch()
	_, second := b.watch()
	b.wait(first)
	text, err := os.ReadFile(filepath.Join(b.node.StateDir, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(string(text))
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	agent, third := b.watch()
	if how := <-second; !strings.Contains(how, "killed") {
		t.Errorf("the frozen one: %s", how)
	}
	if err := agent.Close(); err != nil { // like kill -9: it checks every second then
		t.Fatal(err)
	}
	b.set(0)
	b.await("the third one kills", func() bool { return !b.running("a") })
	b.stop(third)
}

// TestEndsWithItsAgent tests the end in order if nothing runs, and at once after sayLeave.
func TestEndsWithItsAgent(t *testing.T) {
	for _, test := range []struct {
		say  string
		runs bool
	}{{sayOrderly, false}, {sayLeave, true}} {
		b := newBench(t)
		b.set(time.Hour)
		if test.runs {
			b.runs("a")
		}
		agent, ended := b.watch()
		if _, err := io.WriteString(agent, test.say+"\n"); err != nil {
			t.Fatal(err)
		}
		if err := agent.Close(); err != nil {
			t.Fatal(err)
		}
		b.wait(ended)
		if test.runs != b.running("a") {
			t.Errorf("%s: it runs: %t", test.say, b.running("a"))
		}
	}
}

// TestMarkOnAFullDisk checks that a container is marked even if the disk has no block left.
func TestMarkOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(filepath.Join(dir, EndingDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, EndingDir, "ending"), []byte("stopped\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	for id, want := range map[string]string{"a": Fenced, "ending": "stopped\n"} {
		if err := mark(dir, id); err != nil {
			t.Error(err)
		}
		if text, err := ReadMark(dir, id); text != want || err != nil {
			t.Errorf("the mark of %s is %q, %v", id, text, err)
		}
	}
}

// TestKeeper tests the restart of a killed watchdog, and that it stays if containers run.
func TestKeeper(t *testing.T) {
	b := newBench(t)
	b.set(time.Hour)
	b.runs("a")
	ready := make(chan struct{})
	says, said := observer.New(zap.InfoLevel)
	k := Keeper{
		Config: Config{Dir: b.node.StateDir, Nodes: []Node{b.node}}, Program: os.Args[0],
		Ready: func() { close(ready) }, Logger: zap.New(says),
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	<-ready
	pid := func() int {
		text, _ := os.ReadFile(filepath.Join(b.node.StateDir, lockFile))
		pid, _ := strconv.Atoi(string(text))
		return pid
	}
	first := pid()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.await("another one", func() bool { return said.FilterMessage("there is a watchdog again").Len() == 1 })
	again := pid()
	cancel()
	if err := <-done; err != context.Canceled {
		t.Error(err)
	}
	if err := syscall.Kill(again, 0); err != nil {
		t.Errorf("something runs, and the watchdog is gone: %v", err)
	}
	b.set(0)
	b.await("it kills without an agent", func() bool { return !b.running("a") })
	if err := syscall.Kill(again, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	b.await("the watchdog ends", func() bool { return syscall.Kill(again, 0) != nil }) // until then it writes into the test's directory
}

// TestSleepsByTheBootClock tests that an alarm fires at a time of the boot clock.
func TestSleepsByTheBootClock(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.timer.Close()
	until := a.now() + 50*time.Millisecond
	if err := a.sleep(t.Context(), until, nil); err != nil || a.now() < until {
		t.Errorf("%v, %s early", err, until-a.now())
	}
	if err := a.sleep(t.Context(), 0, nil); err != nil {
		t.Error("a moment that has passed:", err)
	}
	wake := make(chan struct{})
	close(wake)
	if err := a.sleep(t.Context(), a.now()+time.Hour, wake); err != nil {
		t.Error(err)
	}
}
