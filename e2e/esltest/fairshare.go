package esltest

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Sharing is a cluster whose tasks join shared policies.
type Sharing struct {
	*hollow.Cluster
	T    *testing.T
	Jobs *esl.Client
}

func NewSharing(t *testing.T, cfg hollow.Config, id string, p esl.Shared) *Sharing {
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
	s := &Sharing{Cluster: c, T: t}
	if s.Jobs, err = c.Client("d"); err != nil {
		t.Fatal(err)
	}
	if err := s.Jobs.Declare(t.Context(), id, p, ""); err != nil {
		t.Fatal(err)
	}
	return s
}

// Submit submits a job, and returns its ids.
func (s *Sharing) Submit(tasks []controlplane.Submission, policies ...esl.Policy) controlplane.Launched {
	s.T.Helper()
	job, err := s.Jobs.Submit(s.T.Context(), controlplane.Job{Name: "j", Tasks: tasks}, policies...)
	if err != nil {
		s.T.Fatal(err)
	}
	return job
}

func (s *Sharing) Snapshot() *cluster.View {
	s.T.Helper()
	v, err := s.View(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	return v
}

// held returns the amount of a pool that a user holds.
func held(v *cluster.View, pool string) float64 {
	rid := types.Resolve("d", "teams.fair-share."+pool)
	p := v.Pools[rid]
	if p == nil || p.Allocated.V == nil {
		return 0
	}
	return float64(p.Allocated.V.Of(rid)) / 1000
}

// Shares checks the current shares of users in a resource, each within a relative error.
func (s *Sharing) Shares(resource string, within float64, want map[string]float64) {
	s.T.Helper()
	v := s.Snapshot()
	for user, w := range want {
		if got := held(v, user+"."+resource); math.Abs(got-w) > within*w {
			s.T.Errorf("%s has %g %s, want %g", user, got, resource, w)
		}
	}
}

// Evicted returns the number of evictions.
func (s *Sharing) Evicted() (n int) {
	for task := range s.Snapshot().Tasks() {
		n += task.Info.V.Evict
	}
	return n
}

// Used returns the average cpu utilization of a cluster, sampled four times a second.
func (s *Sharing) Used(of float64, during time.Duration) float64 {
	s.T.Helper()
	sum, n := 0.0, 0.0
	for range during / (250 * time.Millisecond) {
		time.Sleep(250 * time.Millisecond)
		for _, node := range s.Snapshot().Nodes {
			sum += float64(node.Used(types.CPU)) / 1000
		}
		n++
	}
	return sum / n / of
}

func (s *Sharing) Stop(jobs ...controlplane.Launched) {
	s.T.Helper()
	for _, job := range jobs {
		for _, id := range job.Tasks {
			if err := s.Jobs.Stop(s.T.Context(), id, controlplane.StopOptions{Reason: "enough"}); err != nil && !types.Is(err, types.Precondition) {
				s.T.Fatal(err)
			}
		}
	}
}

// NothingLeft checks that nothing is left except the shared policy and its declarations.
func (s *Sharing) NothingLeft(but ...string) {
	s.T.Helper()
	time.Sleep(10 * time.Second)
	left, err := s.Left(s.T.Context(), "d")
	if err != nil {
		s.T.Fatal(err)
	}
	for _, key := range left {
		known := strings.Contains(key, "policies/d/")
		for _, b := range but {
			known = known || strings.Contains(key, b)
		}
		if !known {
			s.T.Errorf("left behind: %s", key)
		}
	}
	if err := s.Audit(s.T.Context()); err != nil {
		s.T.Error(err)
	}
}

func As(user string) esl.Use { return esl.Use{Name: "teams", As: user} }
