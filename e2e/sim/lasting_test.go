package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Changes of a task while its attempt lasts, and facts that outlast the attempt.

func deadline(at time.Time) func(*types.Task) {
	return func(t *types.Task) { t.Deadline = at.UnixNano() }
}

// attempt returns the machine that has an attempt of a task, and the attempt.
func (b *bench) attempt(id string) (*agent, *attempt) {
	b.t.Helper()
	for _, a := range b.agents {
		for _, x := range a.all() {
			if x.task() == "a/"+id {
				return a, x
			}
		}
	}
	b.t.Fatalf("%s is nowhere", id)
	return nil, nil
}

// again restarts the process of a task in place, and has that reported.
func (b *bench) again(id string) {
	b.t.Helper()
	a, x := b.attempt(id)
	x.restarts++
	a.tells(x, &types.Report{Phase: types.ReportRunning, Started: b.now.UnixNano(), Reason: "exit code 1: restarts"})
}

func TestTroubleAndRestartsAreInTheStatus(t *testing.T) {
	b := alone(t, 1)
	b.task("t1", need("cpu", 100))
	b.schedule(0)
	b.agents[0].deliver(1 << 30)
	a, x := b.attempt("t1")
	for _, reason := range []string{"no answer", "still no answer"} {
		a.tells(x, &types.Report{Phase: types.ReportStarting, Reason: reason})
		b.schedule(0)
		if s := b.status(ref{"a", "t1"}); s.Phase != types.Bound || s.Attempt != 1 || s.Reason != reason {
			t.Errorf("its status is %+v", s)
		}
	}
	b.calm()
	if s := b.status(ref{"a", "t1"}); s.Phase != types.Running || s.Reason != "" || s.Image == "" {
		t.Errorf("it runs: %+v", s)
	}
	for n := 1; n <= 2; n++ {
		b.again("t1")
		b.calm()
		if s := b.status(ref{"a", "t1"}); s.Phase != types.Running || s.Attempt != 1 || s.Restarts != n || !strings.Contains(s.Reason, "restarts") {
			t.Errorf("run again %d times: %+v", n, s)
		}
	}
	b.end("t1", 3)
	b.calm()
	if s := b.status(ref{"a", "t1"}); s.Phase != types.Failed || s.ExitCode != 3 || s.Restarts != 2 {
		t.Errorf("it ended: %+v", s)
	}
	b.ok()
}

// TestSlowStartIsNotWritten: a slow start is no trouble.
func TestSlowStartIsNotWritten(t *testing.T) {
	b := alone(t, 1)
	b.task("t1", need("cpu", 100))
	b.schedule(0)
	b.agents[0].deliver(1 << 30)
	a, x := b.attempt("t1")
	a.tells(x, &types.Report{Phase: types.ReportStarting})
	before := b.store.Revision()
	if b.schedule(0); b.store.Revision() != before {
		t.Error("its status was written")
	}
	b.ok()
}

// TestImageIsPinned: a tag moves, but a started image stays: in every later attempt, and in the
// rest of the job once one of it is known to run. Another spec of the job is another image.
func TestImageIsPinned(t *testing.T) {
	b := alone(t, 1)
	member := func(image string) func(*types.Task) {
		spec := &types.Spec{Image: image}
		digest := controlplane.SpecDigest(spec)
		b.put(controlplane.SpecKey("a", digest), spec)
		return func(t *types.Task) { t.Job, t.Spec = "j", digest }
	}
	b.task("first", need("cpu", 100), member("s1"))
	b.put(controlplane.JobKey("a", "j"), &types.Job{Tasks: 1})
	b.calm()
	image := b.status(ref{"a", "first"}).Image
	b.later(time.Minute)
	b.task("second", need("cpu", 100), member("s1"))
	b.task("other", need("cpu", 100), member("s2"))
	b.task("alone", need("cpu", 100))
	b.calm()
	b.later(time.Minute)
	b.apps.edit(ref{"a", "first"}, func(t *types.Task) bool { t.Evict = 1; return true })
	b.calm()
	b.is("first", types.Running, "n0")
	if s := b.status(ref{"a", "first"}); s.Attempt != 2 {
		t.Errorf("it is attempt %d", s.Attempt)
	}
	for id, same := range map[string]bool{"first": true, "second": true, "other": false, "alone": false} {
		s := b.status(ref{"a", id})
		if _, x := b.attempt(id); x.image != s.Image || (s.Image == image) != same {
			t.Errorf("%s runs %s, its status says %s; the first ran %s", id, x.image, s.Image, image)
		}
	}
	b.ok()
}

func TestDeadlineOfWhatWaits(t *testing.T) {
	b := alone(t, 1)
	b.task("hog", need("cpu", room))
	b.calm()
	at := b.now.Add(time.Minute)
	b.task("late", need("cpu", 100), deadline(at))
	b.task("later", need("cpu", 100), deadline(at.Add(time.Minute)))
	b.task("never", need("cpu", 100))
	b.calm()
	b.is("late", types.Pending, "")
	if wake := b.members[0].core.Wake(); !wake.Equal(at) {
		t.Errorf("it wakes at %s, the deadline is %s", wake, at)
	}
	b.now = at
	b.calm()
	b.is("late", types.Failed, "")
	if s := b.status(ref{"a", "late"}); s.Reason != "its deadline passed while it waited" || s.Attempt != 0 {
		t.Errorf("its status is %+v", s)
	}
	b.is("later", types.Pending, "")
	b.end("hog", 0)
	b.calm()
	b.is("later", types.Running, "n0")
	if _, x := b.attempt("later"); x.binding.Deadline != at.Add(time.Minute).UnixNano() {
		t.Error("its binding has deadline", x.binding.Deadline)
	}
	// It is too late, despite free capacity.
	b.task("past", need("cpu", 100), deadline(at.Add(-time.Second)))
	b.calm()
	b.is("past", types.Failed, "")
	b.ok()
}

func TestPorts(t *testing.T) {
	b := alone(t, 1)
	ports := func(id string, want ...string) {
		t.Helper()
		_, x := b.attempt(id)
		var got []string
		for _, h := range x.binding.Holds {
			for _, d := range h.Devices {
				got = append(got, d.ID)
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s has ports %v, want %v", id, got, want)
		}
	}
	b.task("t1", need("port", 2000))
	b.calm()
	b.task("t2", need("port", 1000))
	b.calm()
	ports("t1", "20000", "20001")
	ports("t2", "20002")
	b.end("t1", 0)
	b.task("t3", need("port", 3000))
	b.calm()
	ports("t3", "20000", "20001", "20003")
	b.task("t4", need("port", 5000)) // 4 of 8 are free
	b.task("by-number", need("port/8080", 1000))
	b.task("by-number-too", need("port/8080", 1000))
	b.task("of-the-range", need("port/20007", 1000))
	b.calm()
	b.is("t4", types.Pending, "")
	b.is("by-number", types.Running, "n0")
	b.is("by-number-too", types.Pending, "")
	b.is("of-the-range", types.Pending, "")
	b.end("by-number", 0)
	b.end("t2", 0)
	b.calm()
	b.is("by-number-too", types.Running, "n0")
	b.is("t4", types.Running, "n0")
	ports("t4", "20002", "20004", "20005", "20006", "20007")
	b.ok()
}

// TestPortsOfARangeThatMoves: an allocated port keeps its number until it ends, and no other task
// gets it.
func TestPortsOfARangeThatMoves(t *testing.T) {
	b := alone(t, 1)
	b.task("old", need("port", 1000))
	b.task("by-number", need("port/20008", 1000))
	b.calm()
	b.agents[0].givesOut(20_008, 20_009)
	b.agents[0].register()
	b.task("held", need("port/20000", 1000))
	b.task("free", need("port/20001", 1000))
	b.task("one", need("port", 1000))
	b.task("two", need("port", 1000))
	b.calm()
	b.is("held", types.Pending, "")
	b.is("free", types.Running, "n0")
	if _, x := b.attempt("one"); len(x.binding.Holds) != 1 || x.binding.Holds[0].Devices[0].ID != "20009" {
		t.Errorf("it holds %v", x.binding.Holds)
	}
	b.is("two", types.Pending, "")
	b.end("old", 0)
	b.end("by-number", 0)
	b.calm()
	b.is("held", types.Running, "n0")
	b.is("two", types.Running, "n0")
	b.ok()
}

// TestLentPortOfARangeThatMoved: a port collected from the range that is now outside of it is not
// held along with a preceding task that has it by number.
func TestLentPortOfARangeThatMoved(t *testing.T) {
	for _, ahead := range []string{"port/20000", "cpu"} { // of which all is collected
		b := alone(t, 1)
		b.task("hog", need("cpu", room-1000))
		b.calm()
		b.reserve("r", func(r *types.Reservation) { r.Accumulate = true }, bundle("", "cpu", room, "port", 1000))
		b.later(time.Minute)
		b.calm()
		b.agents[0].givesOut(30_000, 30_009)
		b.agents[0].register()
		b.task("ahead", need(ahead, 1000), func(x *types.Task) { x.Priority = 9 })
		b.calm()
		b.is("ahead", types.Running, "n0")
		b.end("ahead", 0)
		b.end("hog", 0)
		b.calm()
		b.task("drawer", need("port@r", 1000))
		b.calm()
		b.is("drawer", types.Running, "n0")
		b.ok()
	}
}

// TestNothingIsCollectedOnACordonedNode: not even to replace capacity lent to a task.
func TestNothingIsCollectedOnACordonedNode(t *testing.T) {
	b := alone(t, 2)
	b.resource("lic", "*", 1000)
	b.task("hog0", need("cpu", room-2000, "node/n0", 1))
	b.task("hog1", need("cpu", room-2000, "node/n1", 1))
	b.calm()
	b.is("hog0", types.Running, "n0")
	b.is("hog1", types.Running, "n1")
	b.reserve("r", func(r *types.Reservation) { r.Accumulate = true }, bundle("n0", "cpu", room), bundle("n1", "cpu", room, "lic", 1000))
	b.later(time.Minute)
	b.calm()
	b.put(controlplane.CordonKey("n1"), &types.Cordon{})
	b.task("ahead", need("cpu", 2000, "lic", 1000), func(x *types.Task) { x.Priority = 9 })
	b.end("hog1", 0)
	b.calm()
	b.is("ahead", types.Running, "n0")
	b.end("ahead", 0)
	b.end("hog0", 0)
	b.calm()
	b.delete(controlplane.CordonKey("n1"))
	b.task("drawer", need("cpu@r", 2*room, "lic@r", 1000))
	b.calm()
	b.ok()
}

// TestOutrankingTaskOfManyKinds: if a transaction cannot hold both the claimant and a task that
// precedes it, all collected capacity is returned first.
func TestOutrankingTaskOfManyKinds(t *testing.T) {
	b := newBench(t, Config{Seed: 1, Schedulers: 1, Nodes: 1, Tasks: 1, Ops: 24})
	kinds := []any{"cpu", 1000}
	for _, name := range []string{"x", "y", "z"} {
		b.resource(name, "n0", 1000)
		kinds = append(kinds, name, 1000)
	}
	b.task("hog", need("cpu", room-1000))
	b.calm()
	b.task("big", need(append([]any{"cpu", room}, kinds[2:]...)...), func(x *types.Task) { x.Accumulate = true })
	b.later(time.Minute)
	b.calm()
	b.task("ahead", need(kinds...), func(x *types.Task) { x.Priority = 9 })
	b.calm()
	b.is("ahead", types.Running, "n0")
	b.end("ahead", 0)
	b.end("hog", 0)
	b.later(time.Minute)
	b.calm()
	b.is("big", types.Running, "n0")
	b.ok()
}

// TestReservedPorts: tasks that draw on a reservation get its port numbers.
func TestReservedPorts(t *testing.T) {
	for _, accumulate := range []bool{false, true} {
		b := alone(t, 1)
		b.task("hog", need("cpu", room, "port", 3000))
		b.calm()
		b.reserve("r", func(r *types.Reservation) { r.Accumulate = accumulate }, bundle("", "cpu", room, "port", 4000), bundle("", "port", 1000, "port/8080", 1000))
		b.later(time.Minute)
		b.calm()
		b.end("hog", 0)
		b.calm()
		b.task("t1", need("port@r", 3000))
		b.task("t2", need("port@r", 2000, "port/8080@r", 1000))
		b.task("t3", need("port@r", 1000))
		b.task("t4", need("port/8080", 1000))
		b.calm()
		b.is("t1", types.Running, "n0")
		b.is("t2", types.Running, "n0")
		b.is("t3", types.Pending, "")
		b.is("t4", types.Pending, "")
		b.ok()
	}
}
