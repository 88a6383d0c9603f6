package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// quantities of the request vectors below
type q = map[string]types.Quantity

func TestExplain(t *testing.T) {
	two := func(b *bench) { b.node("n1", 2000); b.node("n2", 2000) }
	ephemeral := func(b *bench, name string, capacity types.Quantity, where string) {
		r := &types.Resource{Capacity: capacity}
		if n := b.core.view.Nodes[where]; n != nil {
			r.NodeSession = n.Session()
		}
		b.put(controlplane.ResourceKey("d", name, where), r)
	}
	cases := []struct {
		name       string
		prepare    func(*bench)
		requests   q
		edit       func(*types.Task)
		want       string // of the sentence
		then       string // of the suggestion
		infeasible bool
	}{
		{name: "no node", prepare: func(*bench) {}, requests: q{"cpu": 100}, want: "no node is registered", then: "escher dev"},
		{name: "too large for any", prepare: two, requests: q{"cpu": 3000}, want: "It can never run: it asks for 3 cpu", then: "Ask for less cpu", infeasible: true},
		{name: "too large for a dead node", prepare: func(b *bench) {
			two(b)
			b.del(controlplane.AliveKey("n1"), controlplane.AliveKey("n2"))
		}, requests: q{"cpu": 3000}, want: "It can never run", infeasible: true},
		{name: "no such physical resource", prepare: two, requests: q{"gpu": 1000}, want: "It can never run: it asks for 1 gpu", infeasible: true},
		{name: "no such node", prepare: two, requests: q{"node/n9": 1}, want: "node n9 is not registered", then: "escher nodes", infeasible: true},
		{name: "no such rack", prepare: two, requests: q{"rack/r1": 1}, want: "no node is rack/r1", infeasible: true},
		{name: "does not exist yet", prepare: two, requests: q{"data": 1000}, want: "It waits for data, which exists on no node", then: "escher set-resource data"},
		{name: "somebody is to provide it", prepare: func(b *bench) {
			two(b)
			b.task("giver", q{"cpu": 9000}, func(t *types.Task) {
				t.Provides = []types.Provide{{Name: "data", Amount: 1000, When: types.WhenRunning}}
			})
		}, requests: q{"data": 1000}, want: "It waits for data, which giver is to provide", then: "escher why giver"},
		{name: "closed queue", prepare: func(b *bench) { two(b); b.settle(); ephemeral(b, "queue", 0, types.ClusterWide) },
			requests: q{"queue": 1000}, want: "1 of the cluster-wide queue: 0 is free of 0", then: "raised"},
		{name: "used up on its node", prepare: func(b *bench) { two(b); b.settle(); ephemeral(b, "co", 500, "n1") },
			requests: q{"co": 1000}, want: "node n1 is nearest and lacks 1 co (0.5 free of 0.5)"},
		{name: "no room", prepare: func(b *bench) { two(b); b.task("h1", q{"cpu": 1500}); b.task("h2", q{"cpu": 1500}); b.settle() },
			requests: q{"cpu": 1000}, want: "2 nodes short of cpu", then: "as soon as enough ends"},
		{name: "cordoned", prepare: func(b *bench) {
			b.node("n1", 2000)
			b.put(controlplane.CordonKey("n1"), &types.Cordon{Reason: "new disk"})
		},
			requests: q{"cpu": 1000}, want: "no node is eligible (1 node cordoned: new disk)", then: "escher nodes"},
		{name: "no reservation", prepare: two, requests: q{"cpu@train": 1000}, want: "there is no reservation train", then: "escher reserve train"},
		{name: "reservation not granted", prepare: func(b *bench) {
			two(b)
			b.put(controlplane.ReservationKey("d", "train"), &types.Reservation{Bundles: []types.Bundle{{Requests: types.NewRequests(q{"cpu": 9000})}}})
		}, requests: q{"cpu@train": 1000}, want: "reservation train is not granted yet", then: "escher why train"},
		{name: "alternative later", prepare: two, requests: q{}, edit: func(t *types.Task) {
			t.Alternatives = []types.Alternative{{Requests: types.NewRequests(q{"data": 1000})}, {Requests: types.NewRequests(q{"cpu": 100}), After: 3 * time.Second}}
		}, want: "by an alternative that is allowed in 3s"},
		{name: "job not there", prepare: two, requests: q{"cpu": 100}, edit: func(t *types.Task) { t.Job = "j" }, want: "waits for its job j"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, Config{})
			c.prepare(b)
			b.task("t", c.requests, func(task *types.Task) {
				if c.edit != nil {
					c.edit(task)
				}
			})
			b.settle()
			e, err := Explain(b.core.View(), clusterID("d", "t"), b.now)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(e.Summary, c.want) || !strings.Contains(e.Suggestion, c.then) || e.Infeasible != c.infeasible {
				t.Errorf("infeasible %t\n%s", e.Infeasible, strings.Join(e.Lines(), "\n"))
			}
		})
	}
}

func TestExplainReservation(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 2000)
	b.node("n2", 1000)
	b.task("hog", q{"cpu": 100, "node/n2": 1})
	bundle := types.Bundle{Requests: types.NewRequests(q{"cpu": 1500})}
	b.put(controlplane.ReservationKey("d", "train"), &types.Reservation{Bundles: []types.Bundle{bundle, bundle}})
	b.settle()
	e, err := ExplainReservation(b.core.View(), clusterID("d", "train"), b.now)
	if err != nil || e.Summary != "It can never be granted: with nothing else there, 1 of its 2 bundles fit." || !e.Infeasible {
		t.Error(e.Summary, err)
	}
	b.node("n3", 2000)
	b.put(controlplane.CordonKey("n3"), &types.Cordon{})
	b.settle()
	e, err = ExplainReservation(b.core.View(), clusterID("d", "train"), b.now)
	if err != nil || !strings.HasPrefix(e.Summary, "1 of 2 bundles have room.") || e.Infeasible {
		t.Error(e.Summary, err)
	}
	b.del(controlplane.CordonKey("n3"))
	b.settle()
	e, err = ExplainReservation(b.core.View(), clusterID("d", "train"), b.now)
	if err != nil || e.Summary != "It is granted, on 2 nodes." {
		t.Error(e.Summary, err)
	}
}

func TestExplainAfterwards(t *testing.T) {
	b := newBench(t, Config{})
	b.node("n1", 2000)
	b.task("t", q{"cpu": 100})
	b.settle()
	e, err := Explain(b.core.View(), clusterID("d", "t"), b.now)
	if err != nil || e.Summary != "It is bound on node n1, attempt 1, and its container is being started." {
		t.Error(e.Summary, err)
	}
	if _, err := Explain(b.core.View(), clusterID("d", "none"), b.now); !types.Is(err, types.NotFound) {
		t.Error(err)
	}
}
