package place_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// exampleSite runs a cluster in memory for examples.
func exampleSite(nodes []hollow.Node, example func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := hollow.Start(ctx, hollow.Config{Nodes: nodes})
	if err != nil {
		fmt.Println(err)
		return
	}
	jobs, err := c.Client("d")
	if err == nil {
		err = example(ctx, c, jobs)
	}
	if err := errors.Join(err, c.Close()); err != nil {
		fmt.Println(err)
	}
}

// exampleRun submits a job, waits until its tasks run, and returns how many run where.
func exampleRun(ctx context.Context, c *hollow.Cluster, jobs *esl.Client, in esl.Domain, job controlplane.Job, policies ...esl.Policy) (string, error) {
	launched, err := jobs.Submit(ctx, job, policies...)
	if err != nil {
		return "", err
	}
	v, err := c.Await(ctx, func(v *cluster.View) bool {
		running := hollow.Running(v, "d")
		return !slices.ContainsFunc(launched.Tasks, func(id string) bool { return running[id] == "" })
	})
	if err != nil {
		return "", err
	}
	return esltest.Spots(v, in, launched), nil
}

// TestPlacementRefuses submits impossible policies.
func TestPlacementRefuses(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(1, 1), func(s *esltest.Site) {
		for _, test := range []struct {
			policies []esl.Policy
			want     string
		}{
			{[]esl.Policy{place.Apart{PerNode: -1}}, "perNode: -1 is negative"},
			{[]esl.Policy{place.Apart{In: "cell"}}, `in: "cell" is unknown`},
			{[]esl.Policy{place.Spread{Over: "cell", MaxSkew: 1}}, `over: "cell" is unknown`},
			{[]esl.Policy{place.Spread{MaxSkew: -2}}, "maxSkew: -2 is negative"},
			{[]esl.Policy{place.Balance{Nodes: -1}}, "nodes: -1 is negative"},
			{[]esl.Policy{place.Colocate{In: "cell"}}, `in: "cell" is unknown`},
			{[]esl.Policy{place.Colocate{With: "a b"}}, "with: "},
			{[]esl.Policy{place.Colocate{OnLoss: "weep"}}, `onLoss: "weep" is unknown`},
			{[]esl.Policy{place.Colocate{}, place.Apart{}}, "exclude each other"},
			{[]esl.Policy{place.Pack{}, place.Spread{}}, "exclude each other"},
			{[]esl.Policy{place.Balance{}, place.Pack{}}, "exclude each other"},
			{[]esl.Policy{place.Prefer{}}, "of: is empty"},
			{[]esl.Policy{place.Prefer{Of: make([]place.Choice, 17)}}, "of: has 17 places"},
			{[]esl.Policy{place.Prefer{Of: []place.Choice{{Node: "a b"}}}}, "of[0]"},
			{[]esl.Policy{place.Prefer{Of: []place.Choice{{Rack: "a", After: 2}, {Rack: "b", After: 1}}}}, "of[1].after"},
			{[]esl.Policy{place.Prefer{Of: slices.Repeat([]place.Choice{{Rack: "a"}}, 5)}, place.Prefer{Of: slices.Repeat([]place.Choice{{Rack: "b"}}, 4)}}, "are 20: at most 16"},
			{[]esl.Policy{place.Near{}}, "to: "},
			{[]esl.Policy{place.Near{To: "gpu"}}, "to: "},
			{[]esl.Policy{place.Near{To: "x", Cache: true}}, "wait is not given"},
			{[]esl.Policy{place.Near{To: "x", Copies: 2}}, "cache is not set"},
			{[]esl.Policy{place.Objective{}}, `by: "" is unknown`},
			{[]esl.Policy{place.Objective{By: place.Load, Weights: map[string]float64{"x": 1}}}, "weights.x"},
			{[]esl.Policy{esl.Use{Name: "none"}}, "none"},
		} {
			_, err := s.Jobs.Submit(s.Context(), controlplane.Job{Name: "x", Tasks: esl.Copies(2, hollow.Task(100))}, test.policies...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v, want %q", test.policies, err, test.want)
			}
			if class := types.ClassOf(err); class != types.Invalid && class != types.Precondition {
				t.Errorf("%+v: class %v", test.policies, class)
			}
		}
	})
}
