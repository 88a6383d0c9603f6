package gang_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// TestGangLoss leaves whole gangs after a fixed number of kills.
func TestGangLoss(t *testing.T) {
	for name, c := range map[string]struct {
		gang gang.Gang
		harm func(g esltest.Gangs, job controlplane.Launched, nodes []string)
		// attempts are those of the members that run in the end; nil means all have ended.
		attempts []int
		says     string
	}{
		"fail: a member fails": {gang.Gang{}, func(g esltest.Gangs, job controlplane.Launched, _ []string) { g.FailTask(job.Tasks[1]) }, nil, "member"},
		"fail: a node is lost": {gang.Gang{}, func(g esltest.Gangs, _ controlplane.Launched, nodes []string) { g.Lose(nodes[1]) }, nil, "member"},
		"fail: one is stopped": {gang.Gang{}, func(g esltest.Gangs, job controlplane.Launched, _ []string) {
			_ = g.Stop(g.T.Context(), job.Tasks[1], controlplane.StopOptions{})
		}, nil, "was stopped"},
		"restart: a member fails": {gang.Gang{Loss: esl.Restart}, func(g esltest.Gangs, job controlplane.Launched, _ []string) { g.FailTask(job.Tasks[1]) }, []int{2, 2, 2}, ""},
		"restart: a node is lost": {gang.Gang{Loss: esl.Restart}, func(g esltest.Gangs, _ controlplane.Launched, nodes []string) { g.Lose(nodes[1]) }, []int{2, 2, 2}, ""},
		"fail: one is evicted": {gang.Gang{}, func(g esltest.Gangs, job controlplane.Launched, _ []string) {
			_ = g.Evict(g.T.Context(), job.Tasks[0], 1)
		}, []int{2, 2, 2}, ""},
		"alone: a node is lost":   {gang.Gang{Loss: esl.Alone}, func(g esltest.Gangs, _ controlplane.Launched, nodes []string) { g.Lose(nodes[1]) }, []int{1, 2, 1}, ""},
		"alone: a member fails":   {gang.Gang{Loss: esl.Alone}, func(g esltest.Gangs, job controlplane.Launched, _ []string) { g.FailTask(job.Tasks[1]) }, []int{1, 2, 1}, ""},
		"its place is taken away": {gang.Gang{}, func(g esltest.Gangs, job controlplane.Launched, _ []string) { g.Preempt(job) }, []int{2, 2, 2}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(5, 1)})
				job := g.SubmitTasks(3, hollow.Task(1000), c.gang, place.Apart{})
				c.harm(g, job, g.Running(job))
				if c.attempts == nil {
					for id, s := range g.Ended(job) {
						if s.Phase == types.Succeeded {
							t.Errorf("%s has succeeded", id)
						}
					}
					v := g.Snapshot()
					stop := v.Task(cluster.ID{Namespace: "d", ID: job.Tasks[0]}).Info.V.Stop
					if stop == nil || !strings.Contains(stop.Reason, c.says) {
						t.Errorf("the first was told %+v", stop)
					}
					g.Clean()
					return
				}
				g.AwaitView(func(v *cluster.View) bool {
					for i, id := range job.Tasks {
						s := v.Task(cluster.ID{Namespace: "d", ID: id}).Status.V
						if s == nil || s.Phase != types.Running || s.Attempt != c.attempts[i] {
							return false
						}
					}
					return true
				})
				time.Sleep(time.Minute)
				if n := len(g.Running(job)); n != 3 {
					t.Errorf("%d run", n)
				}
				for i, id := range job.Tasks {
					if a := g.Snapshot().Task(cluster.ID{Namespace: "d", ID: id}).Status.V.Attempt; a != c.attempts[i] {
						t.Errorf("%s is at attempt %d", id, a)
					}
				}
				if err := g.Audit(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestGangEndsByParts frees the part of a member as soon as it has succeeded, as none would start
// there again. With onLoss alone the place is kept.
func TestGangEndsByParts(t *testing.T) {
	for name, c := range map[string]struct {
		gang gang.Gang
		ends time.Duration
	}{
		"fail": {gang.Gang{}, 5 * time.Second}, "restart": {gang.Gang{Loss: esl.Restart}, 5 * time.Second}, "alone": {gang.Gang{Loss: esl.Alone}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(3, 1)})
				began := time.Now()
				tasks := []controlplane.Submission{hollow.Task(1000, "run", "5s"), hollow.Task(1000, "run", "60s"), hollow.Task(1000, "run", "60s")}
				job, err := g.Client.Submit(t.Context(), controlplane.Job{Name: "train", Tasks: tasks}, c.gang)
				if err != nil {
					t.Fatal(err)
				}
				g.Running(job)
				g.Running(g.SubmitTasks(1, hollow.Task(1000, "run", "1s")))
				if after := time.Since(began); after < c.ends || after > c.ends+2*time.Second {
					t.Errorf("another task has the place after %s, want %s", after, c.ends)
				}
				time.Sleep(35 * time.Second) // until the server has counted the runs
				before := g.Snapshot().Revision
				time.Sleep(10 * time.Second)
				if now := g.Snapshot().Revision; now != before {
					t.Errorf("while nothing happens there were %d changes", now-before)
				}
				for id, s := range g.Ended(job) {
					if s.Phase != types.Succeeded {
						t.Errorf("%s: %s", id, s.Phase)
					}
				}
				g.Clean()
			})
		})
	}
}

// TestGangIsLostAfterOneSucceeded loses a member after another one has succeeded: all end, though
// their reservation was gone.
func TestGangIsLostAfterOneSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(3, 1)})
		tasks := []controlplane.Submission{hollow.Task(1000, "run", "5s"), hollow.Task(1000, "run", "5m"), hollow.Task(1000, "run", "5m")}
		job, err := g.Client.Submit(t.Context(), controlplane.Job{Name: "train", Tasks: tasks}, gang.Gang{Loss: esl.Restart})
		if err != nil {
			t.Fatal(err)
		}
		g.Running(job)
		time.Sleep(20 * time.Second)
		if err := g.Evict(t.Context(), job.Tasks[1], 1); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for id, s := range g.Ended(job) {
			if (s.Phase == types.Succeeded) != (id == job.Tasks[0]) {
				t.Errorf("%s: %s", id, s.Phase)
			}
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it ended after %s", took)
		}
		g.Clean()
	})
}

// TestGangIsNeverPartialForLong kills members, and the process that runs the policy, at random.
// Running members are soon at the same attempt, and all finish.
func TestGangIsNeverPartialForLong(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomHarm(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func randomHarm(t *testing.T, rnd *rand.Rand) {
	g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(6, 2)})
	job := g.SubmitTasks(5, hollow.Task(1000, "stop", "2s"), gang.Gang{Loss: esl.Restart, Restarts: 1000})
	var watched longest
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = g.Await(ctx, func(v *cluster.View) bool { watched.look(v, job); return false })
	}()
	nodes := g.Running(job)
	for range 12 {
		id := job.Tasks[rnd.IntN(len(job.Tasks))]
		switch rnd.IntN(5) {
		case 0:
			g.FailTask(id)
		case 1:
			_ = g.Evict(t.Context(), id, 0)
		case 2:
			node := nodes[rnd.IntN(len(nodes))]
			_ = g.Kill(t.Context(), node)
			_ = g.Return(node)
		case 3:
			g.StopKeeping()
			time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
			g.Keep()
		}
		time.Sleep(time.Duration(rnd.IntN(20000)) * time.Millisecond)
	}
	time.Sleep(10 * time.Minute)
	g.Running(job)
	cancel()
	<-done
	if watched.most > 5*time.Second {
		t.Errorf("members of different attempts ran for %s", watched.most)
	}
	v := g.Snapshot()
	for _, id := range job.Tasks {
		if a, b := v.Task(cluster.ID{Namespace: "d", ID: id}).Status.V.Attempt, v.Task(cluster.ID{Namespace: "d", ID: job.Tasks[0]}).Status.V.Attempt; a != b {
			t.Errorf("%s is at attempt %d, the first at %d", id, a, b)
		}
	}
	if err := g.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// longest is for how long members of different attempts have run at a time.
type longest struct {
	since time.Time
	most  time.Duration
}

func (l *longest) look(v *cluster.View, job controlplane.Launched) {
	attempts := make(map[int]bool)
	for _, id := range job.Tasks {
		if t := v.Task(cluster.ID{Namespace: "d", ID: id}); t != nil && t.Phase() == types.Running {
			attempts[t.Status.V.Attempt] = true
		}
	}
	switch {
	case len(attempts) < 2:
		l.since = time.Time{}
	case l.since.IsZero():
		l.since = time.Now()
	default:
		l.most = max(l.most, time.Since(l.since))
	}
}
