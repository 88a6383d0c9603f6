package semantics_test

import (
	"fmt"
	"slices"
	"sync"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

func samples() []sample {
	return slices.Concat(
		capacities(), amounts(), changes(), removals(), places(), pools(), names(), creators(),
		losses(), ends(), lifetimes(), ofJobs(), signals(), locks(),
	)
}

// capacities are about capacity.
func capacities() []sample {
	return []sample{
		{"creation, then submission", func(w *world) {
			w.set("x", "1", on("n2"))
			w.task("a", "x=1")
			w.runs("a@n2")
			w.has("x", "n2", "1", "0")
		}},
		{"submission, then creation", func(w *world) {
			w.task("a", "x=1")
			w.waits("a")
			w.set("x", "1", on("n3"))
			w.runs("a@n3")
		}},
		{"submission of many, then creation of some", func(w *world) {
			for i := range 5 {
				w.task(fmt.Sprintf("t%d", i), "x=1")
			}
			w.waits("t0", "t4")
			w.set("x", "3", on("n1"))
			w.runs("t0", "t1", "t2")
			w.waits("t3", "t4")
		}},
		{"a capacity is absolute", func(w *world) {
			w.set("x", "2", on("n1"))
			w.set("x", "2", on("n1"))
			w.set("x", "3", on("n1"))
			w.has("x", "n1", "3", "3")
		}},
		{"and idempotent: the same again writes nothing", func(w *world) {
			w.set("x", "2", on("n1"))
			before := w.stored()
			w.set("x", "2", on("n1"))
			if after := w.stored(); after != before {
				w.t.Errorf("%s became %s", before, after)
			}
		}},
	}
}

// amounts are about fractions, and infinite amounts.
func amounts() []sample {
	return []sample{
		{"fractions share one", func(w *world) {
			w.set("x", "1", on("n1"))
			w.task("a", "x=0.5")
			w.task("b", "x=0.3")
			w.runs("a@n1", "b@n1")
			w.task("c", "x=0.3")
			w.waits("c")
			w.has("x", "n1", "1", "0.2")
			w.task("d", "x=0.2")
			w.runs("d@n1")
		}},
		{"down to a thousandth", func(w *world) {
			w.set("x", "0.001", on("n1"))
			w.task("a", "x=0.001")
			w.runs("a@n1")
			w.task("b", "x=0.001")
			w.waits("b")
		}},
		{"inf is no bound", func(w *world) {
			w.set("x", "inf", on("n1"))
			for i := range 20 {
				w.task(fmt.Sprintf("t%d", i), "x=1000")
			}
			w.runs("t0@n1", "t19@n1")
			w.has("x", "n1", "inf", "inf")
		}},
		{"inf may become finite, while held", func(w *world) {
			w.set("x", "inf", on("n1"))
			w.task("a", "x=3")
			w.runs("a")
			w.set("x", "4", on("n1"))
			w.has("x", "n1", "4", "1")
		}},
		{"less than nothing is refused", func(w *world) {
			w.refused(types.Invalid, "capacity: ", func() error {
				_, err := w.SetResource(w.ctx, "x", -1, on("n1"), controlplane.SetOptions{})
				return err
			})
		}},
	}
}

// changes are about changes of a held resource.
func changes() []sample {
	return []sample{
		{"zero removes", func(w *world) {
			w.set("x", "1", on("n1"))
			w.set("x", "0", on("n1"))
			w.has("x", "n1", "-", "-")
			w.task("a", "x=1")
			w.waits("a")
		}},
		{"zero, declared, is there and closed", func(w *world) {
			w.set("x", "0", on("n1"), closed())
			w.has("x", "n1", "0", "0")
			w.task("a", "x=1")
			w.waits("a")
			w.set("x", "1", on("n1"))
			w.runs("a@n1")
		}},
		{"shrink below use", func(w *world) {
			w.set("x", "4", on("n1"))
			w.task("a", "x=3")
			w.runs("a")
			w.set("x", "1", on("n1"))
			w.has("x", "n1", "1", "-2")
			w.task("b", "x=1")
			w.waits("b")
			w.still(types.Running, "a")
			w.finish("a", 0)
			w.runs("b@n1")
			w.has("x", "n1", "1", "0")
		}},
		{"and grow again by less than what is missing", func(w *world) {
			w.set("x", "4", on("n1"))
			w.task("a", "x=4")
			w.runs("a")
			w.set("x", "1", on("n1"))
			w.set("x", "4", on("n1"))
			w.task("b", "x=1")
			w.waits("b")
			w.set("x", "5", on("n1"))
			w.runs("b@n1")
		}},
	}
}

// removals are about removing and re-creating a held resource.
func removals() []sample {
	return []sample{
		{"closed while held", func(w *world) {
			w.set("x", "2", on("n1"))
			w.task("a", "x=1")
			w.runs("a")
			w.set("x", "0", on("n1"), closed())
			w.has("x", "n1", "0", "-1")
			w.task("b", "x=1")
			w.waits("b")
			w.still(types.Running, "a")
		}},
		{"deleted while held", func(w *world) {
			w.set("x", "2", on("n1"))
			w.task("a", "x=1")
			w.runs("a")
			w.set("x", "0", on("n1"))
			w.task("b", "x=1")
			w.waits("b")
			w.still(types.Running, "a")
			w.finish("a", 0)
			w.waits("b")
		}},
		{"created again while held", func(w *world) {
			w.set("x", "1", on("n1"))
			w.task("a", "x=1")
			w.runs("a")
			w.set("x", "0", on("n1"))
			w.task("b", "x=1")
			w.waits("b")
			w.set("x", "1", on("n1"))
			w.has("x", "n1", "1", "0")
			w.waits("b")
			w.finish("a", 0)
			w.runs("b@n1")
		}},
		{"created again, and larger, while held", func(w *world) {
			w.set("x", "1", controlplane.InCluster())
			w.task("a", "x=1")
			w.runs("a")
			w.set("x", "0", controlplane.InCluster())
			w.set("x", "3", controlplane.InCluster())
			w.has("x", "*", "3", "2")
			w.task("b", "x=2")
			w.runs("b")
			w.task("c", "x=0.5")
			w.waits("c")
		}},
		{"created again on every node, while held of one", func(w *world) {
			w.set("x", "1", on("n1"))
			w.task("a", "x=1")
			w.runs("a@n1")
			w.set("x", "0", on("n1"))
			w.set("x", "1", controlplane.OnEvery())
			w.task("b", "x=1")
			w.task("c", "x=1")
			w.runs("b", "c")
			w.task("d", "x=1")
			w.waits("d")
			w.finish("a", 0)
			w.runs("d@n1")
		}},
	}
}

// places are about the locations of a resource.
func places() []sample {
	rack := func(name string) controlplane.Where {
		return controlplane.OnEvery(types.Label{Name: "rack", Value: name})
	}
	return []sample{
		{"on every node, present and future", func(w *world) {
			w.set("x", "1", controlplane.OnEvery())
			w.task("a", "x=1", "node/n1=1")
			w.task("b", "x=1", "node/n2=1")
			w.task("c", "x=1", "node/n3=1")
			w.runs("a", "b", "c")
			w.task("d", "x=1")
			w.waits("d")
			w.c.Add(newNode("n4"))
			w.runs("d@n4")
		}},
		{"a node's own takes the place of that of every node", func(w *world) {
			w.set("x", "1", controlplane.OnEvery())
			w.set("x", "3", on("n2"))
			w.has("x", "n1", "1", "1")
			w.has("x", "n2", "3", "3")
			w.set("x", "2", controlplane.OnEvery())
			w.has("x", "n2", "2", "2")
		}},
		{"on nodes with a label", func(w *world) {
			w.set("x", "1", rack("r2"))
			w.has("x", "n1", "-", "-")
			w.task("a", "x=1")
			w.runs("a@n3")
		}},
		{"on nodes where something is free now", func(w *world) {
			w.task("big", "cpu=3", "node/n2=1")
			w.runs("big")
			w.set("x", "1", manifest.NodesOf(types.Selector{Available: needs("cpu=2")}))
			w.has("x", "n1", "1", "1")
			w.has("x", "n2", "-", "-")
			w.has("x", "n3", "1", "1")
			w.finish("big", 0)
			w.has("x", "n2", "-", "-")
		}},
		{"an unknown node is refused", func(w *world) {
			w.refused(types.Invalid, `"n9" is unknown`, func() error { return w.trySet("x", "1", on("n9")) })
		}},
		{"and all of them, if one is", func(w *world) {
			w.refused(types.Invalid, `"n9" is unknown`, func() error { return w.trySet("x", "1", on("n1", "n9")) })
		}},
		{"a label of no node is refused, unless it is to come", func(w *world) {
			w.refused(types.Precondition, "rack=r9", func() error { return w.trySet("x", "1", rack("r9")) })
			w.set("x", "1", rack("r9"), controlplane.SetOptions{Future: true})
			w.task("a", "x=1")
			w.waits("a")
			n := newNode("n4")
			n.Labels = map[string]string{"rack": "r9"}
			w.c.Add(n)
			w.runs("a@n4")
		}},
	}
}

// pools are about cluster-wide resources, and impossible locations.
func pools() []sample {
	return []sample{
		{"one pool of the cluster", func(w *world) {
			w.set("x", "2", controlplane.InCluster())
			w.task("a", "x=1", "node/n1=1")
			w.task("b", "x=1", "node/n2=1")
			w.runs("a", "b")
			w.task("c", "x=1", "node/n3=1")
			w.waits("c")
			w.finish("a", 1)
			w.runs("c@n3")
		}},
		{"which cannot be on nodes too", func(w *world) {
			w.set("x", "2", controlplane.InCluster())
			w.refused(types.Precondition, "x", func() error { return w.trySet("x", "1", on("n1")) })
			w.set("x", "0", controlplane.InCluster())
			w.set("x", "1", on("n1"))
			w.refused(types.Precondition, "x", func() error { return w.trySet("x", "1", controlplane.InCluster()) })
		}},
		{"a request that no node can meet is said to be one", func(w *world) {
			w.task("a", "cpu=99")
			w.waits("a")
			if e := w.why("a"); !e.Infeasible || e.Summary == "" {
				w.t.Errorf("%+v", e)
			}
			w.task("b", "x=1")
			w.waits("b")
			if e := w.why("b"); e.Infeasible || e.Summary == "" {
				w.t.Errorf("what may yet be created is said to be infeasible: %+v", e)
			}
		}},
	}
}

// names are about the visibility of and the write access to names.
func names() []sample {
	return []sample{
		{"another namespace neither sees it nor draws on it", func(w *world) {
			w.set("x", "1", on("n1"))
			other := w.as("other")
			if a, ok := w.amounts(other, "x", "n1"); ok {
				w.t.Errorf("it sees %+v", a)
			}
			launched, err := other.Launch(w.ctx, submission("a", "x=1"))
			w.ok(err)
			w.settle()
			s, err := other.Status(w.ctx, launched.Tasks[0])
			if err != nil || s.Phase() != types.Pending {
				w.t.Errorf("its task is %s, %v", s.Phase(), err)
			}
			w.has("x", "n1", "1", "1")
		}},
		{"nor overwrites it", func(w *world) {
			w.set("x", "1", on("n1"))
			_, err := w.as("other").SetResource(w.ctx, "x", 5000, on("n1"), controlplane.SetOptions{})
			w.ok(err)
			w.has("x", "n1", "1", "1")
			_, err = w.as("other").SetResource(w.ctx, "x", 0, on("n1"), controlplane.SetOptions{})
			w.ok(err)
			w.has("x", "n1", "1", "1")
		}},
		{"no client may write a physical resource", func(w *world) {
			for _, name := range []string{"cpu", "gpu", "acme.com/fpga", "node/n1"} {
				w.refused(types.Invalid, "name: ", func() error { return w.trySet(name, "1", on("n1")) })
			}
			w.has("cpu", "n1", "4", "4")
		}},
	}
}

// creators are about concurrent creators.
func creators() []sample {
	atOnce := func(n int, f func(i int)) {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { f(i) })
		}
		all.Wait()
	}
	return []sample{
		{"many creators of one", func(w *world) {
			var mu sync.Mutex
			atOnce(20, func(i int) {
				if err := w.trySet("x", fmt.Sprint(1+i), on("n1")); err != nil {
					mu.Lock()
					defer mu.Unlock()
					w.t.Error(err)
				}
			})
			a, _ := w.amounts(w.Client, "x", "n1")
			if a.Capacity < 1000 || a.Capacity > 20_000 {
				w.t.Errorf("there are %s, which no client set", a.Capacity.Format("x"))
			}
		}},
		{"many creators of many", func(w *world) {
			atOnce(30, func(i int) {
				c := w.as("d")
				if _, err := c.SetResource(w.ctx, fmt.Sprintf("x%d", i), 1000, on("n1", "n2"), controlplane.SetOptions{}); err != nil {
					w.t.Error(err)
				}
			})
			for i := range 30 {
				w.has(fmt.Sprintf("x%d", i), "n2", "1", "1")
			}
		}},
		{"many tasks for one that is created meanwhile", func(w *world) {
			atOnce(10, func(i int) {
				if i == 5 {
					w.set("x", "1", on("n1"))
					return
				}
				w.task(fmt.Sprintf("t%d", i), "x=1")
			})
			running := func(v *cluster.View) (n int) {
				for i := range 10 {
					if phase, _ := taskOf(v, fmt.Sprintf("t%d", i)); phase == types.Running {
						n++
					}
				}
				return n
			}
			w.await("one is to run", func(v *cluster.View) bool { return running(v) > 0 })
			w.settle()
			v, err := w.c.View(w.ctx)
			if w.ok(err); running(v) != 1 {
				w.t.Errorf("%d run, and there is one", running(v))
			}
		}},
	}
}
