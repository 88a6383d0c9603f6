package esl_test

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
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// What a fixed number of kills leaves is a whole gang.
func TestGangLoss(t *testing.T) {
	for name, c := range map[string]struct {
		gang esl.Gang
		harm func(g gangs, job controlplane.Launched, nodes []string)
		// attempts are those of the members that run in the end; nil: all have ended.
		attempts []int
		says     string
	}{
		"fail: a member fails": {esl.Gang{}, func(g gangs, job controlplane.Launched, _ []string) { g.kill(job.Tasks[1]) }, nil, "member"},
		"fail: a node is lost": {esl.Gang{}, func(g gangs, _ controlplane.Launched, nodes []string) { g.lose(nodes[1]) }, nil, "member"},
		"fail: one is stopped": {esl.Gang{}, func(g gangs, job controlplane.Launched, _ []string) {
			_ = g.Stop(g.t.Context(), job.Tasks[1], controlplane.StopOptions{})
		}, nil, "was stopped"},
		"restart: a member fails": {esl.Gang{Loss: esl.Restart}, func(g gangs, job controlplane.Launched, _ []string) { g.kill(job.Tasks[1]) }, []int{2, 2, 2}, ""},
		"restart: a node is lost": {esl.Gang{Loss: esl.Restart}, func(g gangs, _ controlplane.Launched, nodes []string) { g.lose(nodes[1]) }, []int{2, 2, 2}, ""},
		"fail: one is evicted": {esl.Gang{}, func(g gangs, job controlplane.Launched, _ []string) {
			_ = g.Evict(g.t.Context(), job.Tasks[0], 1)
		}, []int{2, 2, 2}, ""},
		"alone: a node is lost":   {esl.Gang{Loss: esl.Alone}, func(g gangs, _ controlplane.Launched, nodes []string) { g.lose(nodes[1]) }, []int{1, 2, 1}, ""},
		"alone: a member fails":   {esl.Gang{Loss: esl.Alone}, func(g gangs, job controlplane.Launched, _ []string) { g.kill(job.Tasks[1]) }, []int{1, 2, 1}, ""},
		"its place is taken away": {esl.Gang{}, func(g gangs, job controlplane.Launched, _ []string) { g.preempt(job) }, []int{2, 2, 2}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := startGangs(t, hollow.Config{Nodes: hollow.Nodes(5, 1)})
				job := g.submit(3, hollow.Task(1000), c.gang, esl.Apart{})
				c.harm(g, job, g.running(job))
				if c.attempts == nil {
					for id, s := range g.ended(job) {
						if s.Phase == types.Succeeded {
							t.Errorf("%s has succeeded", id)
						}
					}
					v := g.view()
					stop := v.Task(cluster.ID{Namespace: "d", ID: job.Tasks[0]}).Info.V.Stop
					if stop == nil || !strings.Contains(stop.Reason, c.says) {
						t.Errorf("the first was told %+v", stop)
					}
					g.clean()
					return
				}
				g.await(func(v *cluster.View) bool {
					for i, id := range job.Tasks {
						s := v.Task(cluster.ID{Namespace: "d", ID: id}).Status.V
						if s == nil || s.Phase != types.Running || s.Attempt != c.attempts[i] {
							return false
						}
					}
					return true
				})
				time.Sleep(time.Minute)
				if n := len(g.running(job)); n != 3 {
					t.Errorf("%d run", n)
				}
				for i, id := range job.Tasks {
					if a := g.view().Task(cluster.ID{Namespace: "d", ID: id}).Status.V.Attempt; a != c.attempts[i] {
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

// What a member had is for others as soon as it has succeeded: none would start there again.
// Of those that are alone the place is kept.
func TestGangEndsByParts(t *testing.T) {
	for name, c := range map[string]struct {
		gang esl.Gang
		ends time.Duration
	}{
		"fail": {esl.Gang{}, 5 * time.Second}, "restart": {esl.Gang{Loss: esl.Restart}, 5 * time.Second}, "alone": {esl.Gang{Loss: esl.Alone}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := startGangs(t, hollow.Config{Nodes: hollow.Nodes(3, 1)})
				began := time.Now()
				tasks := []controlplane.Submission{hollow.Task(1000, "run", "5s"), hollow.Task(1000, "run", "60s"), hollow.Task(1000, "run", "60s")}
				job, err := g.Client.Submit(t.Context(), esl.Job{Name: "train", Tasks: tasks}, c.gang)
				if err != nil {
					t.Fatal(err)
				}
				g.running(job)
				g.running(g.submit(1, hollow.Task(1000, "run", "1s")))
				if after := time.Since(began); after < c.ends || after > c.ends+2*time.Second {
					t.Errorf("another task has the place after %s, want %s", after, c.ends)
				}
				time.Sleep(20 * time.Second)
				before := g.view().Revision
				time.Sleep(10 * time.Second)
				if now := g.view().Revision; now != before {
					t.Errorf("while nothing happens there were %d changes", now-before)
				}
				for id, s := range g.ended(job) {
					if s.Phase != types.Succeeded {
						t.Errorf("%s: %s", id, s.Phase)
					}
				}
				g.clean()
			})
		})
	}
}

// A member that is lost after another one has succeeded ends all, though their place was
// given back.
func TestGangIsLostAfterOneSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := startGangs(t, hollow.Config{Nodes: hollow.Nodes(3, 1)})
		tasks := []controlplane.Submission{hollow.Task(1000, "run", "5s"), hollow.Task(1000, "run", "5m"), hollow.Task(1000, "run", "5m")}
		job, err := g.Client.Submit(t.Context(), esl.Job{Name: "train", Tasks: tasks}, esl.Gang{Loss: esl.Restart})
		if err != nil {
			t.Fatal(err)
		}
		g.running(job)
		time.Sleep(20 * time.Second)
		if err := g.Evict(t.Context(), job.Tasks[1], 1); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for id, s := range g.ended(job) {
			if (s.Phase == types.Succeeded) != (id == job.Tasks[0]) {
				t.Errorf("%s: %s", id, s.Phase)
			}
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it ended after %s", took)
		}
		g.clean()
	})
}

// kill has the process of a member end with a failure, if it runs.
func (g gangs) kill(id string) {
	g.t.Helper()
	if err := g.Finish(g.t.Context(), "d", id, 1); err != nil && !types.Is(err, types.NotFound) {
		g.t.Fatal(err)
	}
}

// lose cuts a node off for good.
func (g gangs) lose(node string) {
	g.t.Helper()
	if err := g.Kill(g.t.Context(), node); err != nil {
		g.t.Fatal(err)
	}
}

// preempt does what makes room for another: the place is taken away, and all leave.
func (g gangs) preempt(job controlplane.Launched) {
	g.t.Helper()
	tx := g.Begin().Unreserve(job.Job + ".gang")
	for _, id := range job.Tasks {
		tx.Evict(id, 1)
	}
	if _, err := tx.Commit(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
}

// Whatever happens to members, and whenever what keeps them is killed, those that run are
// soon at the same attempt, and all finish.
func TestGangIsNeverPartialForLong(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomHarm(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func randomHarm(t *testing.T, rnd *rand.Rand) {
	g := startGangs(t, hollow.Config{Nodes: hollow.Nodes(6, 2)})
	job := g.submit(5, hollow.Task(1000, "stop", "2s"), esl.Gang{Loss: esl.Restart, Restarts: 1000})
	var watched longest
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = g.Await(ctx, func(v *cluster.View) bool { watched.look(v, job); return false })
	}()
	nodes := g.running(job)
	for range 12 {
		id := job.Tasks[rnd.IntN(len(job.Tasks))]
		switch rnd.IntN(5) {
		case 0:
			g.kill(id)
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
	g.running(job)
	cancel()
	<-done
	if watched.most > 5*time.Second {
		t.Errorf("members of different attempts ran for %s", watched.most)
	}
	v := g.view()
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
