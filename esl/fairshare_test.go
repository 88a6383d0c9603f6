package esl_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// sharing is a cluster whose tasks take part in policies that are shared.
type sharing struct {
	*hollow.Cluster
	t    *testing.T
	jobs *esl.Client
}

func newSharing(t *testing.T, cfg hollow.Config, id string, p esl.Shared) *sharing {
	t.Helper()
	c, err := hollow.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &sharing{Cluster: c, t: t}
	if s.jobs, err = c.Client("d"); err != nil {
		t.Fatal(err)
	}
	if err := s.jobs.Declare(t.Context(), id, p, ""); err != nil {
		t.Fatal(err)
	}
	return s
}

// submit submits a job, and returns its id.
func (s *sharing) submit(tasks []controlplane.Submission, policies ...esl.Policy) controlplane.Launched {
	s.t.Helper()
	job, err := s.jobs.Submit(s.t.Context(), esl.Job{Name: "j", Tasks: tasks}, policies...)
	if err != nil {
		s.t.Fatal(err)
	}
	return job
}

func (s *sharing) view() *cluster.View {
	s.t.Helper()
	v, err := s.View(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// held returns how much of its pool a user has.
func held(v *cluster.View, pool string) float64 {
	rid := types.Resolve("d", "teams.fair-share."+pool)
	p := v.Pools[rid]
	if p == nil || p.Allocated.V == nil {
		return 0
	}
	return float64(p.Allocated.V.Of(rid)) / 1000
}

// shares checks what users have of a resource now, each within some part of it.
func (s *sharing) shares(resource string, within float64, want map[string]float64) {
	s.t.Helper()
	v := s.view()
	for user, w := range want {
		if got := held(v, user+"."+resource); math.Abs(got-w) > within*w {
			s.t.Errorf("%s has %g %s, want %g", user, got, resource, w)
		}
	}
}

// evicted returns how often tasks were evicted.
func (s *sharing) evicted() (n int) {
	for task := range s.view().Tasks() {
		n += task.Info.V.Evict
	}
	return n
}

// used returns how much of the cpu of a cluster is in use on average, looked at four times
// a second.
func (s *sharing) used(of float64, during time.Duration) float64 {
	s.t.Helper()
	sum, n := 0.0, 0.0
	for range during / (250 * time.Millisecond) {
		time.Sleep(250 * time.Millisecond)
		for _, node := range s.view().Nodes {
			sum += float64(node.Used(types.CPU)) / 1000
		}
		n++
	}
	return sum / n / of
}

func (s *sharing) stop(jobs ...controlplane.Launched) {
	s.t.Helper()
	for _, job := range jobs {
		for _, id := range job.Tasks {
			if err := s.jobs.Stop(s.t.Context(), id, controlplane.StopOptions{Reason: "enough"}); err != nil && !types.Is(err, types.Precondition) {
				s.t.Fatal(err)
			}
		}
	}
}

// nothingLeft checks that nothing is left but the shared policy and what it declares.
func (s *sharing) nothingLeft(but ...string) {
	s.t.Helper()
	time.Sleep(10 * time.Second)
	left, err := s.Left(s.t.Context(), "d")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, key := range left {
		known := strings.Contains(key, "policies/d/")
		for _, b := range but {
			known = known || strings.Contains(key, b)
		}
		if !known {
			s.t.Errorf("left behind: %s", key)
		}
	}
	if err := s.Audit(s.t.Context()); err != nil {
		s.t.Error(err)
	}
}

func teams() esl.FairShare {
	return esl.FairShare{Of: map[string]esl.Team{
		"a": {Of: map[string]esl.Team{"alice": {}, "bob": {}}},
		"b": {Of: map[string]esl.Team{"carol": {}}},
	}, Over: []string{"cpu"}}
}

func as(user string) esl.Share { return esl.Share{In: "teams", As: user} }

// TestFairShareJoins has users join one after the other, and leave: each has his share
// within ten seconds, the cluster is full, and nothing is left in the end.
func TestFairShareJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(5, 4)}, "teams", teams())
		work := func(seconds int) []controlplane.Submission {
			var tasks []controlplane.Submission
			for i := range 20 * seconds / 3 {
				tasks = append(tasks, hollow.Task(1000, "run", fmt.Sprintf("%dms", 1000+(i*37)%4000)))
			}
			return tasks
		}
		all := s.submit(work(80), as("a/alice"))
		time.Sleep(5 * time.Second)
		s.shares("cpu", 0.05, map[string]float64{"a.alice": 20})
		second := s.submit(work(60), as("b/carol"))
		time.Sleep(10 * time.Second)
		s.shares("cpu", 0.05, map[string]float64{"a.alice": 10, "b.carol": 10})
		if u := s.used(20, 5*time.Second); u < 0.97 {
			t.Errorf("%.3f of the cluster is used", u)
		}
		third := s.submit(work(30), as("a/bob"))
		time.Sleep(10 * time.Second)
		s.shares("cpu", 0.05, map[string]float64{"a.alice": 5, "a.bob": 5, "b.carol": 10})
		if u := s.used(20, 5*time.Second); u < 0.97 {
			t.Errorf("%.3f of the cluster is used", u)
		}
		s.stop(second)
		time.Sleep(10 * time.Second)
		s.shares("cpu", 0.05, map[string]float64{"a.alice": 10, "a.bob": 10, "b.carol": 0})
		s.stop(all, third)
		s.nothingLeft()
	})
}

// TestFairShareReclaimsOnce has a user come whose share another one had all of, with nothing
// left that waits: what is evicted of that does not come back in its place.
func TestFairShareReclaimsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := esl.FairShare{Anyone: 1, Over: []string{"cpu"}, Reclaim: manifest.Duration(10 * time.Second)}
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(4, 4)}, "teams", p)
		a := s.submit(esl.Copies(40, hollow.Task(250)), as("a"))
		time.Sleep(time.Second)
		b := s.submit(esl.Copies(40, hollow.Task(250)), as("b"))
		time.Sleep(15 * time.Second)
		s.shares("cpu", 0, map[string]float64{"a": 8, "b": 8})
		time.Sleep(time.Minute)
		if n := s.evicted(); n != 8 {
			t.Errorf("%d were evicted, want 8", n)
		}
		s.stop(a, b)
		s.nothingLeft()
	})
}

// TestFairShareReclaim has a user come when all is taken by tasks that do not end: after
// the time that is stated, and not before, he has his share, and nobody less than his.
func TestFairShareReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := teams()
		p.Reclaim = manifest.Duration(30 * time.Second)
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(4, 4)}, "teams", p)
		long := s.submit(esl.Copies(20, hollow.Task(1000)), as("a/alice"))
		time.Sleep(time.Minute)
		s.shares("cpu", 0, map[string]float64{"a.alice": 16})
		other := s.submit(esl.Copies(20, hollow.Task(1000)), as("b/carol"))
		time.Sleep(29 * time.Second)
		s.shares("cpu", 0, map[string]float64{"a.alice": 16, "b.carol": 0})
		s.StopKeeping() // its successor knows what it knew
		s.Keep()
		time.Sleep(5 * time.Second)
		s.shares("cpu", 0, map[string]float64{"a.alice": 8, "b.carol": 8})
		few := s.submit(esl.Copies(3, hollow.Task(1000)), as("a/bob"))
		time.Sleep(35 * time.Second)
		s.shares("cpu", 0, map[string]float64{"a.alice": 5, "a.bob": 3, "b.carol": 8})
		time.Sleep(5 * time.Minute) // and so it stays
		s.shares("cpu", 0, map[string]float64{"a.alice": 5, "a.bob": 3, "b.carol": 8})
		evicted := 0
		for task := range s.view().Tasks() {
			if task.Info.V != nil && task.Info.V.Evict > 0 {
				evicted++
			}
		}
		if evicted != 11 {
			t.Errorf("%d tasks were evicted, want 8 and 3", evicted)
		}
		s.stop(long, other, few)
		s.nothingLeft()
	})
}

// TestFairShareDominant shares two resources: the example of the paper on DRF, six times
// as large.
func TestFairShareDominant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := hollow.Node{Name: "big", Capacity: map[string]types.Quantity{"cpu": 54_000, "memory": 108 << 30}}
		s := newSharing(t, hollow.Config{Nodes: []hollow.Node{node}}, "teams", esl.FairShare{Anyone: 1})
		task := func(cpu, memory int64) controlplane.Submission {
			x := hollow.Task(0, "run", "3s")
			x.Task.Requests = types.NewRequests(map[string]types.Quantity{"cpu": types.Quantity(cpu * 1000), "memory": types.Quantity(memory << 30)})
			return x
		}
		a := s.submit(esl.Copies(300, task(1, 4)), as("a"))
		time.Sleep(4 * time.Second)
		b := s.submit(esl.Copies(300, task(3, 1)), as("b"))
		time.Sleep(10 * time.Second)
		s.shares("cpu", 0.05, map[string]float64{"a": 18, "b": 36})
		s.shares("memory", 0.05, map[string]float64{"a": 72 << 10, "b": 12 << 10})
		s.stop(a, b)
		s.nothingLeft()
	})
}

// TestFairShareTurns has more users than there is room for: all get their turn, whoever
// was first.
func TestFairShareTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 4)}, "teams", esl.FairShare{Anyone: 1, Over: []string{"cpu"}})
		var jobs []controlplane.Launched
		for i := range 12 {
			jobs = append(jobs, s.submit(esl.Copies(50, hollow.Task(1000, "run", "2s")), as(fmt.Sprintf("u%02d", i))))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
		v := s.view()
		for i, job := range jobs {
			ended := 0
			for _, id := range job.Tasks {
				if v.Task(cluster.ID{Namespace: "d", ID: id}).Phase().Ended() {
					ended++
				}
			}
			if ended < 16 || ended > 24 { // 120 s of 4 cpu are 20 tasks for each
				t.Errorf("user %d had %d turns", i, ended)
			}
		}
		s.stop(jobs...)
		s.nothingLeft()
	})
}

// TestFairShareOfWhatWaits keeps no share for what cannot run anyway: what waits for
// another resource, or is too large for any node.
func TestFairShareOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 8)}, "teams", teams())
		later := hollow.Task(1000)
		later.Task.Requests = later.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"signal": 1}))
		idle := s.submit(append(esl.Copies(50, later), esl.Copies(50, hollow.Task(9000))...), as("b/carol"))
		work := s.submit(esl.Copies(100, hollow.Task(1000, "run", "3s")), as("a/alice"))
		time.Sleep(5 * time.Second)
		s.shares("cpu", 0, map[string]float64{"a.alice": 16})
		if _, err := s.jobs.SetResource(t.Context(), "signal", types.Inf, controlplane.InCluster(), controlplane.SetOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		s.shares("cpu", 0, map[string]float64{"a.alice": 8, "b.carol": 8})
		s.stop(idle, work)
		s.nothingLeft("signal")
	})
}

// TestFairShareAfterLoss loses half of the cluster: what is left is shared as before.
func TestFairShareAfterLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(4, 6)}, "teams", teams())
		a := s.submit(esl.Copies(300, hollow.Task(1000, "run", "2s")), as("a/alice"))
		b := s.submit(esl.Copies(300, hollow.Task(1000, "run", "2s")), as("b/carol"))
		time.Sleep(6 * time.Second)
		s.shares("cpu", 0.05, map[string]float64{"a.alice": 12, "b.carol": 12})
		if err := s.Kill(t.Context(), "n00"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		s.shares("cpu", 0.05, map[string]float64{"a.alice": 9, "b.carol": 9})
		s.stop(a, b)
		s.nothingLeft()
	})
}

// TestFairShareWhy says what a task waits for.
func TestFairShareWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 4)}, "teams", teams())
		s.submit(esl.Copies(10, hollow.Task(1000)), as("a/alice"))
		time.Sleep(time.Second)
		s.submit(esl.Copies(10, hollow.Task(1000)), as("b/carol"))
		time.Sleep(5 * time.Second)
		v := s.view()
		var got []string
		for task := range v.Tasks() {
			if task.Phase() == types.Pending {
				got = append(got, esl.Why(v, esl.Builtin(), task.ID, time.Now())...)
			}
		}
		for _, want := range []string{
			"b/carol has 0 of the 2 cpu that are the share of b/carol now", "; 1 task is before it", "; 9 tasks are before it",
			"a/alice has 4 of the 2 cpu that are the share of a/alice now; 5 tasks are before it",
		} {
			if !strings.Contains(strings.Join(got, "\n"), want) {
				t.Errorf("nobody says %q:\n%s", want, strings.Join(got, "\n"))
			}
		}
	})
}

// TestFairShareRefuses: what is wrong is said before anything is written.
func TestFairShareRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 4)}, "teams", teams())
		onlyMemory := hollow.Task(0)
		onlyMemory.Task.Requests = types.NewRequests(map[string]types.Quantity{"memory": 1 << 20})
		for _, test := range []struct {
			what  controlplane.Submission
			share esl.Share
			want  string
		}{
			{hollow.Task(1000), esl.Share{In: "teams", As: "a/alcie"}, `there is no a/alcie: use alice, bob`},
			{hollow.Task(1000), esl.Share{In: "teams", As: "a"}, `"a" is a team: name one of its users, such as a/alice`},
			{hollow.Task(1000), esl.Share{In: "teams", As: "a/alice/x"}, `a/alice is a user, and has nobody`},
			{hollow.Task(1000), esl.Share{In: "teams", As: "a/al.ice"}, `contains a dot`},
			{hollow.Task(1000), esl.Share{In: "tems", As: "a/alice"}, `no shared policy "tems"`},
			{onlyMemory, esl.Share{In: "teams", As: "a/alice"}, `asks for nothing of cpu`},
		} {
			_, err := s.jobs.Submit(t.Context(), esl.Job{Name: "j", Tasks: esl.Copies(1, test.what)}, test.share)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v, want %q", test.share, err, test.want)
			}
		}
		for _, test := range []struct {
			p    esl.FairShare
			want string
		}{
			{esl.FairShare{}, "of: there is nobody"},
			{esl.FairShare{Of: map[string]esl.Team{"a": {Weight: -1}}}, "of.a.weight: -1 is out of range"},
			{esl.FairShare{Of: map[string]esl.Team{"a": {Of: map[string]esl.Team{"x y": {}}}}}, `of.a.of.x y: "x y" contains ' '`},
			{esl.FairShare{Anyone: 1, Over: []string{"cpu", "cpu"}}, "over[1]"},
			{esl.FairShare{Anyone: 1, Over: []string{"node/n1"}}, "over[0]"},
			{esl.FairShare{Anyone: 1, Reclaim: -1}, "reclaim"},
			{esl.FairShare{Of: map[string]esl.Team{strings.Repeat("x", 50): {}}}, "at most 63 are allowed"},
		} {
			if err := s.jobs.Declare(t.Context(), "other", test.p, ""); err == nil || !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v, want %q", test.p, err, test.want)
			}
		}
		s.nothingLeft()
	})
}
