package share_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

func teams() share.FairShare {
	return share.FairShare{Of: map[string]share.Team{
		"a": {Of: map[string]share.Team{"alice": {}, "bob": {}}},
		"b": {Of: map[string]share.Team{"carol": {}}},
	}, Over: []string{"cpu"}}
}

// TestFairShareJoins lets users join one after the other, and leave: each has its share within ten
// seconds, the cluster is full, and nothing is left in the end.
func TestFairShareJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(5, 4)}, "teams", teams())
		work := func(seconds int) []controlplane.Submission {
			var tasks []controlplane.Submission
			for i := range 20 * seconds / 3 {
				tasks = append(tasks, hollow.Task(1000, "run", fmt.Sprintf("%dms", 1000+(i*37)%4000)))
			}
			return tasks
		}
		all := s.Submit(work(80), esltest.As("a/alice"))
		time.Sleep(5 * time.Second)
		s.Shares("cpu", 0.05, map[string]float64{"a.alice": 20})
		second := s.Submit(work(60), esltest.As("b/carol"))
		time.Sleep(10 * time.Second)
		s.Shares("cpu", 0.05, map[string]float64{"a.alice": 10, "b.carol": 10})
		if u := s.Used(20, 5*time.Second); u < 0.97 {
			t.Errorf("%.3f of the cluster is used", u)
		}
		third := s.Submit(work(30), esltest.As("a/bob"))
		time.Sleep(10 * time.Second)
		s.Shares("cpu", 0.05, map[string]float64{"a.alice": 5, "a.bob": 5, "b.carol": 10})
		if u := s.Used(20, 5*time.Second); u < 0.97 {
			t.Errorf("%.3f of the cluster is used", u)
		}
		s.Stop(second)
		time.Sleep(10 * time.Second)
		s.Shares("cpu", 0.05, map[string]float64{"a.alice": 10, "a.bob": 10, "b.carol": 0})
		s.Stop(all, third)
		s.NothingLeft()
	})
}

// TestFairShareReclaimsOnce adds a user whose share another user had, without waiting tasks:
// evicted tasks of that user do not come back in its place.
func TestFairShareReclaimsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := share.FairShare{Anyone: 1, Over: []string{"cpu"}, Reclaim: manifest.Duration(10 * time.Second)}
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(4, 4)}, "teams", p)
		a := s.Submit(esl.Copies(40, hollow.Task(250)), esltest.As("a"))
		time.Sleep(time.Second)
		b := s.Submit(esl.Copies(40, hollow.Task(250)), esltest.As("b"))
		time.Sleep(15 * time.Second)
		s.Shares("cpu", 0, map[string]float64{"a": 8, "b": 8})
		time.Sleep(time.Minute)
		if n := s.Evicted(); n != 8 {
			t.Errorf("%d were evicted, want 8", n)
		}
		s.Stop(a, b)
		s.NothingLeft()
	})
}

// TestFairShareReclaim adds a user when endless tasks take everything: after the stated time, and
// not before, it has its share, and none has less than its own.
func TestFairShareReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := teams()
		p.Reclaim = manifest.Duration(30 * time.Second)
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(4, 4)}, "teams", p)
		long := s.Submit(esl.Copies(20, hollow.Task(1000)), esltest.As("a/alice"))
		time.Sleep(time.Minute)
		s.Shares("cpu", 0, map[string]float64{"a.alice": 16})
		other := s.Submit(esl.Copies(20, hollow.Task(1000)), esltest.As("b/carol"))
		time.Sleep(29 * time.Second)
		s.Shares("cpu", 0, map[string]float64{"a.alice": 16, "b.carol": 0})
		s.StopKeeping() // its successor has the same knowledge
		s.Keep()
		time.Sleep(5 * time.Second)
		s.Shares("cpu", 0, map[string]float64{"a.alice": 8, "b.carol": 8})
		few := s.Submit(esl.Copies(3, hollow.Task(1000)), esltest.As("a/bob"))
		time.Sleep(35 * time.Second)
		s.Shares("cpu", 0, map[string]float64{"a.alice": 5, "a.bob": 3, "b.carol": 8})
		time.Sleep(5 * time.Minute) // and so it stays
		s.Shares("cpu", 0, map[string]float64{"a.alice": 5, "a.bob": 3, "b.carol": 8})
		evicted := 0
		for task := range s.Snapshot().Tasks() {
			if task.Info.V != nil && task.Info.V.Evict > 0 {
				evicted++
			}
		}
		if evicted != 11 {
			t.Errorf("%d tasks were evicted, want 8 and 3", evicted)
		}
		s.Stop(long, other, few)
		s.NothingLeft()
	})
}

// TestFairShareDominant shares two resources: the example of the paper on DRF, six times as large.
func TestFairShareDominant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := hollow.Node{Name: "big", Capacity: map[string]types.Quantity{"cpu": 54_000, "memory": 108 << 30}}
		s := esltest.NewSharing(t, hollow.Config{Nodes: []hollow.Node{node}}, "teams", share.FairShare{Anyone: 1})
		task := func(cpu, memory int64) controlplane.Submission {
			x := hollow.Task(0, "run", "3s")
			x.Task.Requests = types.NewRequests(map[string]types.Quantity{"cpu": types.Quantity(cpu * 1000), "memory": types.Quantity(memory << 30)})
			return x
		}
		a := s.Submit(esl.Copies(300, task(1, 4)), esltest.As("a"))
		time.Sleep(4 * time.Second)
		b := s.Submit(esl.Copies(300, task(3, 1)), esltest.As("b"))
		time.Sleep(10 * time.Second)
		s.Shares("cpu", 0.05, map[string]float64{"a": 18, "b": 36})
		s.Shares("memory", 0.05, map[string]float64{"a": 72 << 10, "b": 12 << 10})
		s.Stop(a, b)
		s.NothingLeft()
	})
}

// TestFairShareTurns has more users than fit: all get their turn, in any order of arrival.
func TestFairShareTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 4)}, "teams", share.FairShare{Anyone: 1, Over: []string{"cpu"}})
		var jobs []controlplane.Launched
		for i := range 12 {
			jobs = append(jobs, s.Submit(esl.Copies(50, hollow.Task(1000, "run", "2s")), esltest.As(fmt.Sprintf("u%02d", i))))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
		v := s.Snapshot()
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
		s.Stop(jobs...)
		s.NothingLeft()
	})
}

// TestFairShareOfWhatWaits keeps no share for tasks that cannot run anyway: those that wait for
// another resource, or are too large for any node.
func TestFairShareOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 8)}, "teams", teams())
		later := hollow.Task(1000)
		later.Task.Requests = later.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"signal": 1}))
		idle := s.Submit(append(esl.Copies(50, later), esl.Copies(50, hollow.Task(9000))...), esltest.As("b/carol"))
		work := s.Submit(esl.Copies(100, hollow.Task(1000, "run", "3s")), esltest.As("a/alice"))
		time.Sleep(5 * time.Second)
		s.Shares("cpu", 0, map[string]float64{"a.alice": 16})
		if _, err := s.Jobs.SetResource(t.Context(), "signal", types.Inf, controlplane.InCluster(), controlplane.SetOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		s.Shares("cpu", 0, map[string]float64{"a.alice": 8, "b.carol": 8})
		s.Stop(idle, work)
		s.NothingLeft("signal")
	})
}

// TestFairShareAfterLoss loses half of the cluster: the rest is shared as before.
func TestFairShareAfterLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(4, 6)}, "teams", teams())
		a := s.Submit(esl.Copies(300, hollow.Task(1000, "run", "2s")), esltest.As("a/alice"))
		b := s.Submit(esl.Copies(300, hollow.Task(1000, "run", "2s")), esltest.As("b/carol"))
		time.Sleep(7 * time.Second) // in the middle of a run: none ends just now
		s.Shares("cpu", 0.05, map[string]float64{"a.alice": 12, "b.carol": 12})
		if err := s.Kill(t.Context(), "n00"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		s.Shares("cpu", 0.05, map[string]float64{"a.alice": 9, "b.carol": 9})
		s.Stop(a, b)
		s.NothingLeft()
	})
}

// TestFairShareWhy says what a task waits for.
func TestFairShareWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 4)}, "teams", teams())
		s.Submit(esl.Copies(10, hollow.Task(1000)), esltest.As("a/alice"))
		time.Sleep(time.Second)
		s.Submit(esl.Copies(10, hollow.Task(1000)), esltest.As("b/carol"))
		time.Sleep(5 * time.Second)
		v := s.Snapshot()
		var got []string
		for task := range v.Tasks() {
			if task.Phase() == types.Pending {
				got = append(got, why.Summaries(esl.Why(v, builtin.Kinds(), task.ID, time.Now()))...)
			}
		}
		for _, want := range []string{
			"b/carol uses 0 of its share of 2 cpu", "; 1 task is before it", "; 9 tasks are before it",
			"a/alice uses 4 of its share of 2 cpu; 5 tasks are before it",
		} {
			if !strings.Contains(strings.Join(got, "\n"), want) {
				t.Errorf("no reason says %q:\n%s", want, strings.Join(got, "\n"))
			}
		}
	})
}

// TestFairShareWhyGang says the same of a gang, whose reservation requests its share.
func TestFairShareWhyGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 4)}, "teams", teams())
		s.Submit(esl.Copies(4, hollow.Task(1000)), esltest.As("a/alice"))
		time.Sleep(time.Second)
		s.Submit(esl.Copies(2, hollow.Task(1000)), gang.Gang{}, esltest.As("b/carol"))
		time.Sleep(5 * time.Second)
		v := s.Snapshot()
		for task := range v.Tasks() {
			if task.Phase() != types.Pending {
				continue
			}
			got := strings.Join(why.Summaries(esl.Why(v, builtin.Kinds(), task.ID, time.Now())), "\n")
			if want := "b/carol uses 0 of its share of 2 cpu"; !strings.Contains(got, want) {
				t.Errorf("%s says %q, want %q", task.ID, got, want)
			}
			if strings.Contains(got, "before it") {
				t.Errorf("%s says %q: no member is before another", task.ID, got)
			}
		}
	})
}

// TestFairShareRefuses reports errors before anything is written.
func TestFairShareRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(1, 4)}, "teams", teams())
		onlyMemory := hollow.Task(0)
		onlyMemory.Task.Requests = types.NewRequests(map[string]types.Quantity{"memory": 1 << 20})
		for _, test := range []struct {
			what  controlplane.Submission
			share esl.Use
			want  string
		}{
			{hollow.Task(1000), esl.Use{Name: "teams", As: "a/alcie"}, `there is no a/alcie: use alice, bob`},
			{hollow.Task(1000), esl.Use{Name: "teams", As: "a"}, `"a" is a team: name one of its users, such as a/alice`},
			{hollow.Task(1000), esl.Use{Name: "teams", As: "a/alice/x"}, `a/alice is a user, not a team`},
			{hollow.Task(1000), esl.Use{Name: "teams", As: "a/al.ice"}, `contains a dot`},
			{hollow.Task(1000), esl.Use{Name: "tems", As: "a/alice"}, `no shared policy "tems"`},
			{onlyMemory, esl.Use{Name: "teams", As: "a/alice"}, `asks for nothing of cpu`},
		} {
			_, err := s.Jobs.Submit(t.Context(), controlplane.Job{Name: "j", Tasks: esl.Copies(1, test.what)}, test.share)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v, want %q", test.share, err, test.want)
			}
		}
		for _, test := range []struct {
			p    share.FairShare
			want string
		}{
			{share.FairShare{}, "of: there is no team or user"},
			{share.FairShare{Of: map[string]share.Team{"a": {Weight: -1}}}, "of.a.weight: -1 is out of range"},
			{share.FairShare{Of: map[string]share.Team{"a": {Of: map[string]share.Team{"x y": {}}}}}, `of.a.of.x y: "x y" contains ' '`},
			{share.FairShare{Anyone: 1, Over: []string{"cpu", "cpu"}}, "over[1]"},
			{share.FairShare{Anyone: 1, Over: []string{"node/n1"}}, "over[0]"},
			{share.FairShare{Anyone: 1, Reclaim: -1}, "reclaim"},
			{share.FairShare{Of: map[string]share.Team{strings.Repeat("x", 50): {}}}, "at most 63 are allowed"},
		} {
			if err := s.Jobs.Declare(t.Context(), "other", test.p, ""); err == nil || !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v, want %q", test.p, err, test.want)
			}
		}
		s.NothingLeft()
	})
}
