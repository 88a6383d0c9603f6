package cli

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// watched runs a command that watches a store in memory, in synctest.
type watched struct {
	t     *testing.T
	store *memstore.Store
	stop  context.CancelFunc
	ended chan int

	mu  sync.Mutex
	out strings.Builder
}

// Write takes the output of the command.
func (w *watched) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(text)
}

// printed returns the output since the last call, when all is quiet.
func (w *watched) printed() string {
	time.Sleep(3 * cmdutil.DrawEvery / 2)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.out.Reset()
	return w.out.String()
}

func (w *watched) put(key string, m types.Message) {
	w.t.Helper()
	w.commit(controlplane.Op{Key: key, Value: types.Encode(1, m)})
}

func (w *watched) commit(ops ...controlplane.Op) {
	w.t.Helper()
	if _, err := w.store.Commit(w.t.Context(), controlplane.Txn{Ops: ops}); err != nil {
		w.t.Fatal(err)
	}
}

// watch starts a command. height is that of the terminal; 0 means none.
func watch(t *testing.T, height int, setup func(*watched), args ...string) *watched {
	t.Helper()
	w := &watched{t: t, store: memstore.New(memstore.WithoutExpiry()), ended: make(chan int, 1)}
	setup(w)
	f := &cmdutil.Factory{Opened: w.store, Outside: cmdutil.Outside{
		Out: w, Err: w, Getenv: func(string) string { return "" },
		Terminal: func(any) (int, int, bool) { return 60, height, height > 0 },
	}}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(t.Context())
	go func() {
		code := runCommand(ctx, f, args)
		f.Close()
		w.ended <- code
	}()
	return w
}

// over interrupts the command, which ends silently.
func (w *watched) over() {
	w.t.Helper()
	w.stop()
	if code := <-w.ended; code != types.ExitInterrupted {
		w.t.Errorf("it ended with %d", code)
	}
	if got := w.out.String(); strings.Contains(got, "escher:") {
		w.t.Errorf("interrupted, it printed %q", got)
	}
}

func twoTasks(w *watched) {
	submitted := time.Now().UnixNano()
	w.put(controlplane.TaskKey("default", "a-1"), &types.Task{Submitted: submitted})
	w.put(controlplane.TaskKey("default", "b-1"), &types.Task{Submitted: submitted})
	w.put(controlplane.StatusKey("default", "b-1"), &types.Status{Phase: types.Failed, Attempt: 1, Node: "n1", ExitCode: 3})
	w.put(controlplane.TaskKey("other", "c-1"), &types.Task{Submitted: submitted})
}

// TestWatchAppends appends the changes, ends of tasks included, and nothing else.
func TestWatchAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, 0, twoTasks, "ps", "-w")
		wantText(t, w.printed(), "TASK  PHASE    NODE  AGE  EXIT  REASON\na-1   pending  -     0s   -     -\n")
		w.put(controlplane.StatusKey("default", "a-1"), &types.Status{Phase: types.Running, Attempt: 1, Node: "n1"})
		wantText(t, w.printed(), "a-1   running  n1    0s   -     -\n")
		w.put(controlplane.StatusKey("other", "c-1"), &types.Status{Phase: types.Running, Attempt: 1, Node: "n1"})
		wantText(t, w.printed(), "")
		w.put(controlplane.StatusKey("default", "a-1"), &types.Status{Phase: types.Succeeded, Attempt: 1, Node: "n1"})
		wantText(t, w.printed(), "a-1   succeeded  n1    0s   0     -\n")
		w.over()
	})
}

// TestWatchFormats appends in the other formats too.
func TestWatchFormats(t *testing.T) {
	for format, want := range map[string]string{
		"name": "a-1\n", "jsonpath={.items[*].phase}": "running\n", "yaml": "---\nattempt: 1\n", "json": "{\n  \"id\": \"a-1\",\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := watch(t, 0, twoTasks, "ps", "--watch", "-o", format)
			w.printed()
			w.put(controlplane.StatusKey("default", "a-1"), &types.Status{Phase: types.Running, Attempt: 1, Node: "n1"})
			if got := w.printed(); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q", format, got)
			}
			w.over()
		})
	}
}

// TestWatchDraws draws again in place, no more than fits, and restores the terminal.
func TestWatchDraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, 4, twoTasks, "ps", "-w", "--color", "never")
		wantText(t, w.printed(), cmdutil.ScreenBegin+cmdutil.EraseDown+"TASK  PHASE    NODE  AGE  EXIT  REASON\na-1   pending  -     0s   -     -\n")
		more := types.Encode(1, &types.Task{Submitted: time.Now().UnixNano()})
		w.commit(controlplane.Op{Key: controlplane.TaskKey("default", "d-1"), Value: more}, controlplane.Op{Key: controlplane.TaskKey("default", "e-1"), Value: more})
		wantText(t, w.printed(), "\x1b[2A"+cmdutil.EraseDown+"TASK  PHASE    NODE  AGE  EXIT  REASON\na-1   pending  -     0s   -     -\n… 2 more\n")
		time.Sleep(2 * time.Second)
		if got := w.printed(); !strings.Contains(got, "2s") {
			t.Errorf("ages stand still: %q", got)
		}
		w.over()
		if got := w.out.String(); !strings.HasSuffix(got, cmdutil.ScreenEnd) {
			t.Errorf("the terminal was not given back: %q", got)
		}
	})
}

// TestWatchState watches derived objects: nodes, resources and reservations.
func TestWatchState(t *testing.T) {
	for command, want := range map[string]string{"nodes": "0.5/2", "state": "1.5", "resources": "slot", "reservations": "train"} {
		synctest.Test(t, func(t *testing.T) {
			w := watch(t, 0, func(w *watched) {
				w.put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 2000})})
			}, command, "-w")
			w.printed()
			w.put(controlplane.ResourceKey("default", "slot", types.EveryNode), &types.Resource{Capacity: 1000})
			w.put(controlplane.ReservationKey("default", "train"), &types.Reservation{})
			w.put(controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: 500}}})
			w.put(controlplane.ResourceKey("other", "foreign", types.EveryNode), &types.Resource{Capacity: 1000})
			w.put(controlplane.ReservationKey("other", "foreign"), &types.Reservation{})
			if got := w.printed(); !strings.Contains(got, want) || strings.Contains(got, "foreign") {
				t.Errorf("%s: %q does not say %q, or what is another namespace's", command, got, want)
			}
			w.over()
		})
	}
}

// TestTopWithoutAgents shows allocated amounts although no agent reports usage.
func TestTopWithoutAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, 0, func(w *watched) {
			twoTasks(w)
			w.put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 2000})})
			w.put(controlplane.AliveKey("n1"), &types.Alive{})
			w.put(controlplane.StatusKey("default", "a-1"), &types.Status{Phase: types.Running, Attempt: 1, Node: "n1"})
		}, "top")
		if code := <-w.ended; code != 0 {
			t.Fatalf("it ended with %d", code)
		}
		w.stop()
		wantText(t, w.out.String(), "NODE  STATUS  CPU USED  CPU  MEMORY USED  MEMORY  GPU USED  GPU  PRESSURE  RUNNING\n"+
			"n1    alive   -         0/2  -            -       -         -    -         -\n\n"+
			"TASK  PHASE    NODE  CPU  MEMORY  OF LIMIT  READ/S  WRITE/S  GPU  PRESSURE  PROCESSES  AGE\n"+
			"a-1   running  n1    -    -       -         -       -        -    -         -          0s\n")
	})
}

func wantText(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// TestInterruptedWait prints nothing, because nothing is wrong.
func TestInterruptedWait(t *testing.T) {
	for _, args := range [][]string{{"wait", "a-1"}, {"reserve", "train", "--bundle", "cpu=9", "--wait"}} {
		synctest.Test(t, func(t *testing.T) {
			w := watch(t, 0, twoTasks, args...)
			w.printed()
			w.over()
		})
	}
}

// TestProgress shows a long operation on a terminal, and removes that again.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		f := &cmdutil.Factory{Outside: cmdutil.Outside{Err: &out, Terminal: func(any) (int, int, bool) { return 80, 24, true }}}
		quick := f.Progress("being quick")
		time.Sleep(cmdutil.ProgressAfter - 1)
		quick()
		slow := f.Progress("reading")
		time.Sleep(2*cmdutil.ProgressAfter + 1)
		slow()
		slow()
		wantText(t, out.String(), cmdutil.EraseDown+"escher: reading … 1 s"+cmdutil.EraseDown+"escher: reading … 2 s"+cmdutil.EraseDown)
	})
}

// TestWatchedDrain shows how many tasks of all namespaces are left, as they leave.
func TestWatchedDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, 0, func(w *watched) {
			w.put(controlplane.NodeKey("n1"), &types.Node{})
			w.put(controlplane.AliveKey("n1"), &types.Alive{})
			w.put(controlplane.BindingKey("n1", "default", "a", 1), &types.Binding{})
			w.put(controlplane.BindingKey("n1", "other", "b", 1), &types.Binding{})
		}, "nodes", "-w")
		for _, step := range []struct {
			do   func()
			want string
		}{
			{func() {}, " alive "},
			{func() { w.put(controlplane.CordonKey("n1"), &types.Cordon{Drain: types.DrainMove}) }, " draining (2 left) "},
			{func() {
				w.commit(controlplane.Op{Key: controlplane.BindingKey("n1", "other", "b", 1), Delete: true})
			}, " draining (1 left) "},
			{func() {
				w.commit(controlplane.Op{Key: controlplane.BindingKey("n1", "default", "a", 1), Delete: true})
			}, " drained "},
		} {
			step.do()
			if got := w.printed(); !strings.Contains(got, step.want) {
				t.Errorf("%q, want %q", got, step.want)
			}
		}
		w.stop()
		<-w.ended
	})
}
