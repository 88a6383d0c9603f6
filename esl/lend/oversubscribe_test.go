package lend_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/lend"
	"github.com/escher-sched/escher/types"
)

const gi = 1 << 30

// site is a cluster that lends: nodes of ten cores and 64 GiB.
type site struct {
	t *testing.T
	*hollow.Cluster
	jobs *esl.Client
}

// lending runs a test on n such nodes, in virtual time, with the policy idle.
func lending(t *testing.T, n int, test func(s *site)) {
	synctest.Test(t, func(t *testing.T) {
		nodes := hollow.Nodes(n, 10)
		for i := range nodes {
			nodes[i].Capacity[string(types.Memory)] = 64 * gi
		}
		c, err := hollow.Start(t.Context(), hollow.Config{Nodes: nodes})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		jobs, err := c.Client("d")
		if err != nil {
			t.Fatal(err)
		}
		if err := jobs.Declare(t.Context(), "idle", lend.Oversubscribe{}, ""); err != nil {
			t.Fatal(err)
		}
		test(&site{t, c, jobs})
		if err := c.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// task is a submission of so many cores and GiB.
func task(cores, gib int, command ...string) controlplane.Submission {
	s := hollow.Task(cores*1000, command...)
	s.Task.Requests = s.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{string(types.Memory): types.Quantity(gib) * gi}))
	return s
}

// owners submits n tasks that use a part of the cores and GiB that they request.
func (s *site) owners(n, cores, gib int, milli, memory int64) []string {
	s.t.Helper()
	ids := esltest.Submitted(s.t, s.jobs, esl.Copies(n, task(cores, gib))).Tasks
	for _, id := range ids {
		s.SetUse("d", id, milli, memory)
	}
	return ids
}

// guests submits n guests.
func (s *site) guests(n, cores, gib int) []string {
	s.t.Helper()
	return esltest.Submitted(s.t, s.jobs, esl.Copies(n, task(cores, gib)), esl.Use{Name: "idle"}).Tasks
}

// running returns how many tasks run, and how many attempts they have had.
func (s *site) running(ids []string) (running, attempts int) {
	s.t.Helper()
	v := s.view()
	for _, id := range ids {
		t := v.Task(esltest.IDOf(id))
		if t.Phase() == types.Running {
			running++
		}
		if t.Status.V != nil {
			attempts += t.Status.V.Attempt
		}
	}
	return running, attempts
}

func (s *site) view() *cluster.View {
	s.t.Helper()
	v, err := s.View(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// lent returns what a node lends of cpu, and of memory in MiB.
func (s *site) lent(node string) (cpu, memory types.Quantity) {
	s.t.Helper()
	v := s.view()
	cpu, _ = v.Capacity(v.Nodes[node], types.Resolve("d", "idle.oversubscribe.cpu"))
	memory, _ = v.Capacity(v.Nodes[node], types.Resolve("d", "idle.oversubscribe.memory"))
	return cpu, memory / 1000
}

// want fails the test if not so many of the tasks run.
func (s *site) want(ids []string, want int, when string) {
	s.t.Helper()
	if got, _ := s.running(ids); got != want {
		s.t.Errorf("%s, %d guests run, want %d", when, got, want)
	}
}

// TestLend: guests run on what owners leave idle, less the margin, and not before that is known; nothing
// is lent without guests.
func TestLend(t *testing.T) {
	lending(t, 1, func(s *site) {
		s.owners(1, 10, 64, 2000, 16*gi) // it requests all of the node
		esltest.Pass(10 * time.Minute)
		if cpu, _ := s.lent("n00"); cpu != 0 {
			t.Errorf("%d thousandths of a core are lent, and there are no guests", cpu)
		}
		guests := s.guests(9, 1, 4)
		esltest.Pass(30 * time.Second)
		s.want(guests, 7, "after half a minute") // of 10 cores the owner uses 2, and 1 is the margin
		if cpu, memory := s.lent("n00"); cpu != 7000 || memory > 64*1024*9/10-16*1024 || memory < 36*1024 {
			t.Errorf("%d thousandths of a core and %d MiB are lent", cpu, memory)
		}
		waits := ""
		for _, id := range guests {
			if why := esltest.TaskWhy(t, s.Cluster, id); strings.Contains(why, "best-effort") {
				waits = why
			}
		}
		if want := "best-effort: it waits for 1 cpu and 4Gi of memory of idle to be idle on one node; of what is lent on 1 nodes, 7 cpu and"; !strings.Contains(waits, want) {
			t.Errorf("why: %q", waits)
		}
		for _, id := range guests {
			if err := s.jobs.Stop(t.Context(), id, controlplane.StopOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		esltest.Pass(500 * time.Millisecond)
		if cpu, memory := s.lent("n00"); cpu != 0 || memory != 0 {
			t.Errorf("%d and %d are lent after the last guest", cpu, memory)
		}
	})
}

// TestTaken: an owner that uses more than before gets it back within seconds, from the youngest guests
// of the lowest priority, and from no more than needed. They run again when it is idle again for long.
func TestTaken(t *testing.T) {
	lending(t, 1, func(s *site) {
		owner := s.owners(1, 10, 64, 1000, gi)[0]
		esltest.Pass(10 * time.Minute)
		important := task(2, 2)
		important.Task.Priority = 5
		late := esltest.Submitted(t, s.jobs, esl.Copies(1, important), esl.Use{Name: "idle"}).Tasks
		old := s.guests(1, 2, 2)
		esltest.Pass(20 * time.Second)
		young := s.guests(2, 2, 2)
		all := append(append(append([]string{}, late...), old...), young...)
		esltest.Pass(20 * time.Second)
		s.want(all, 4, "at first")
		s.SetUse("d", owner, 4000, gi) // 5.5 are left, 8 are held
		esltest.Pass(5 * time.Second)
		s.want(late, 1, "of a high priority")
		s.want(old, 1, "of the older ones")
		s.want(young, 0, "of the younger ones")
		if why := s.view().Task(esltest.IDOf(young[0])).Status.V.Reason; why != "policy idle lent it what others on node n00 want to use again" {
			t.Errorf("why: %q", why)
		}
		s.SetUse("d", owner, 500, gi)
		esltest.Pass(10 * time.Second)
		s.want(young, 0, "soon after it is idle again")
		esltest.Pass(5 * time.Minute)
		s.want(all, 4, "long after it is idle again")
	})
}

// TestExactly: an owner comes for exactly what is free, which is lent. It begins at once, and the guests
// are gone within seconds.
func TestExactly(t *testing.T) {
	lending(t, 1, func(s *site) {
		s.owners(1, 5, 32, 5000, 32*gi)
		esltest.Pass(time.Minute)
		guests := s.guests(4, 1, 6)
		esltest.Pass(20 * time.Second)
		s.want(guests, 4, "before the owner")
		owner := s.owners(1, 5, 32, 5000, 32*gi)
		esltest.Pass(100 * time.Millisecond)
		s.want(owner, 1, "at once, of the owners,")
		esltest.Pass(2 * time.Second)
		s.want(guests, 0, "with the owner")
		if cpu, memory := s.lent("n00"); cpu != 0 || memory != 0 {
			t.Errorf("%d and %d are lent", cpu, memory)
		}
	})
}

// TestUnknown: where usage is unknown, nothing more is lent, and nothing is evicted.
func TestUnknown(t *testing.T) {
	lending(t, 2, func(s *site) {
		owners := s.owners(2, 10, 64, 1000, gi)
		esltest.Pass(10 * time.Minute)
		s.guests(12, 1, 1) // of eight that either node lends
		esltest.Pass(30 * time.Second)
		s.Silence("n00", true)
		for _, id := range owners {
			s.SetUse("d", id, 10000, gi) // on the silent one, too
		}
		esltest.Pass(3 * time.Second)
		if cpu, _ := s.lent("n00"); cpu == 0 {
			t.Error("one missing answer counts at once")
		}
		esltest.Pass(3 * time.Minute)
		v := s.view()
		held := v.Nodes["n00"].Used(types.Resolve("d", "idle.oversubscribe.cpu"))
		if cpu, _ := s.lent("n00"); cpu != held || held == 0 {
			t.Errorf("%d is lent on the silent node, and %d is held", cpu, held)
		}
		if cpu, _ := s.lent("n01"); cpu != 0 {
			t.Errorf("%d is lent where the owner uses all: the silent node delays the other", cpu)
		}
		s.Silence("n00", false)
		esltest.Pass(2 * time.Minute) // a failing node is asked rarely
		if cpu, _ := s.lent("n00"); cpu != 0 {
			t.Errorf("%d is lent after the node has answered", cpu)
		}
	})
}

// TestLostAndRestarted: guests move from a lost node; a new program that runs the policy evicts none.
func TestLostAndRestarted(t *testing.T) {
	lending(t, 2, func(s *site) {
		s.owners(2, 10, 64, 1000, gi)
		esltest.Pass(10 * time.Minute)
		guests := s.guests(6, 1, 1)
		esltest.Pass(30 * time.Second)
		s.want(guests, 6, "on two nodes")
		for range 3 {
			s.StopKeeping()
			esltest.Pass(2 * time.Minute)
			s.Keep()
			esltest.Pass(30 * time.Second)
		}
		if n, attempts := s.running(guests); n != 6 || attempts != 6 {
			t.Errorf("%d run, after %d attempts", n, attempts)
		}
		if err := s.Kill(t.Context(), "n00"); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(3 * time.Minute)
		s.want(guests, 6, "on one node")
		if err := s.Return("n00"); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(3 * time.Minute)
		s.want(guests, 6, "after its return")
	})
}

// TestFlapping: an owner that works in bursts keeps what it needs for them, and evicts guests once.
func TestFlapping(t *testing.T) {
	lending(t, 1, func(s *site) {
		owner := s.owners(1, 10, 64, 1000, gi)[0]
		esltest.Pass(10 * time.Minute)
		guests := s.guests(8, 1, 1)
		esltest.Pass(20 * time.Second)
		s.want(guests, 8, "at first")
		for i := range 60 { // ten minutes
			s.SetUse("d", owner, []int64{7000, 1000}[i%2], gi)
			esltest.Pass(10 * time.Second)
		}
		if n, attempts := s.running(guests); n < 2 || attempts > 8+6 || n > 3 {
			t.Errorf("%d run, after %d attempts", n, attempts)
		}
	})
}

// TestMemory: what a machine has left bounds what is lent, and less the reserve; an owner that grows gets
// it back.
func TestMemory(t *testing.T) {
	lending(t, 1, func(s *site) {
		owner := s.owners(1, 9, 64, 0, 8*gi)[0]
		other := esltest.Submitted(t, s.jobs, esl.Copies(1, hollow.Task(1))).Tasks[0] // requests no memory, and uses much
		s.SetUse("d", other, 0, 20*gi)
		esltest.Pass(10 * time.Minute)
		guests := s.guests(4, 1, 8)
		esltest.Pass(30 * time.Second)
		s.want(guests, 3, "of 64 GiB, with 28 in use and 6.4 as a margin,")
		for _, id := range guests {
			s.SetUse("d", id, 1000, 8*gi)
		}
		esltest.Pass(30 * time.Second)
		s.want(guests, 3, "when they use what they have")
		s.SetUse("d", owner, 0, 20*gi)
		esltest.Pass(5 * time.Second)
		s.want(guests, 2, "when the owner has grown by 12 GiB")
		s.SetOthers("n00", 8*gi) // 64 are in use, 16 by guests, and 3.2 are kept
		esltest.Pass(5 * time.Second)
		s.want(guests, 1, "when other programs of the machine have taken 8 GiB")
	})
}

// TestGuest: a guest requests what is lent in place of cpu and memory, and has a limit of memory.
func TestGuest(t *testing.T) {
	lending(t, 1, func(s *site) {
		id := s.guests(1, 2, 3)[0]
		v := s.view()
		got := v.Task(esltest.IDOf(id)).Info.V
		if text := fmt.Sprint(got.Requests); text != "[{idle.oversubscribe.cpu 2000} {idle.oversubscribe.memory 3072000}]" {
			t.Errorf("it requests %s", text)
		}
		spec, err := s.jobs.Spec(t.Context(), got.Spec)
		if err != nil || spec.MemoryLimit != 3*gi {
			t.Errorf("its limit is %d: %v", spec.MemoryLimit, err)
		}
		for want, task := range map[string]controlplane.Submission{
			"tasks[0].requests: has cpu 0": task(0, 1), "and memory 0": task(1, 0),
		} {
			_, err := s.jobs.Submit(t.Context(), controlplane.Job{Name: "wrong", Tasks: []controlplane.Submission{task}}, esl.Use{Name: "idle"})
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		if err := (lend.Oversubscribe{Margin: 91}).Validate(); !types.Is(err, types.Invalid) {
			t.Errorf("margin 91: %v", err)
		}
	})
}

// TestTwoPolicies: guests of two policies share what is idle, and do not drive each other out.
func TestTwoPolicies(t *testing.T) {
	lending(t, 1, func(s *site) {
		if err := s.jobs.Declare(t.Context(), "second", lend.Oversubscribe{}, ""); err != nil {
			t.Fatal(err)
		}
		a := s.guests(8, 1, 2)
		b := esltest.Submitted(s.t, s.jobs, esl.Copies(8, task(1, 2)), esl.Use{Name: "second"}).Tasks
		esltest.Pass(5 * time.Minute)
		runA, attemptsA := s.running(a)
		runB, attemptsB := s.running(b)
		if runA+runB < 8 || attemptsA+attemptsB > 20 {
			t.Errorf("%d and %d run, after %d and %d attempts", runA, runB, attemptsA, attemptsB)
		}
	})
}

// TestNoNeedlessEviction: rounding evicts no guest that what is idle suffices for, and nor does a task that
// requests no cpu, and is promised none.
func TestNoNeedlessEviction(t *testing.T) {
	lending(t, 1, func(s *site) {
		owner := s.owners(1, 10, 8, 1000, gi)[0]
		esltest.Pass(2 * time.Minute)
		guest := task(1, 2)
		guest.Task.Requests = types.NewRequests(map[string]types.Quantity{"cpu": 1100, "memory": 2 * gi})
		ids := esltest.Submitted(s.t, s.jobs, esl.Copies(1, guest), esl.Use{Name: "idle"}).Tasks
		esltest.Pass(30 * time.Second)
		s.SetUse("d", owner, 7850, gi)
		free := task(0, 0)
		free.Task.Requests = nil
		s.SetUse("d", esltest.Submitted(s.t, s.jobs, esl.Copies(1, free)).Tasks[0], 9000, gi)
		esltest.Pass(time.Minute)
		if run, attempts := s.running(ids); run != 1 || attempts != 1 {
			t.Errorf("%d runs, after %d attempts", run, attempts)
		}
	})
}

// TestGangsDoNotBorrow: what a reservation holds could not be taken back.
func TestGangsDoNotBorrow(t *testing.T) {
	lending(t, 1, func(s *site) {
		_, err := s.jobs.Submit(t.Context(), controlplane.Job{Name: "gang", Tasks: esl.Copies(2, task(1, 1))}, gang.Gang{}, esl.Use{Name: "idle"})
		if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "exclude each other") {
			t.Errorf("%v", err)
		}
	})
}
