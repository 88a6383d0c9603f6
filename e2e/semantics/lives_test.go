package semantics_test

import (
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/types"
)

func newNode(name string) hollow.Node {
	return hollow.Node{Name: name, Capacity: map[string]types.Quantity{"cpu": 4000}}
}

// losses are about lost nodes.
func losses() []sample {
	return []sample{
		{"a node takes its own resources with it", func(w *world) {
			w.set("x", "1", on("n1"))
			w.task("a", "x=1")
			w.runs("a@n1")
			w.kill("n1")
			w.is("a", types.Pending)
			w.waits("a")
			w.gone(controlplane.ResourceKey("d", "x", "n1"))
			w.set("x", "1", on("n2"))
			w.runs("a@n2")
		}},
		{"and does not bring them back", func(w *world) {
			w.set("x", "1", on("n1"))
			w.task("a", "x=1")
			w.runs("a@n1")
			w.kill("n1")
			w.back("n1")
			w.waits("a")
			w.set("x", "1", on("n1"))
			w.runs("a@n1")
		}},
		{"but has again what every node has", func(w *world) {
			w.set("x", "1", controlplane.OnEvery())
			w.task("a", "x=1", "node/n1=1")
			w.runs("a@n1")
			w.kill("n1")
			w.is("a", types.Pending)
			w.back("n1")
			w.runs("a@n1")
		}},
		{"what a lost task held of a pool returns", func(w *world) {
			w.set("x", "1", controlplane.InCluster())
			w.task("a", "x=1", "node/n1=1")
			w.runs("a@n1")
			w.task("b", "x=1", "node/n2=1")
			w.waits("b")
			w.kill("n1")
			w.runs("b@n2")
			w.waits("a")
		}},
		{"nothing can be set on a node that is lost", func(w *world) {
			w.kill("n1")
			w.refused(types.Precondition, "n1", func() error { return w.trySet("x", "1", on("n1")) })
		}},
	}
}

// ends are about what a task returns.
func ends() []sample {
	back := func(name string, end func(w *world)) sample {
		return sample{name, func(w *world) {
			w.set("x", "1", on("n1"))
			w.task("a", "x=1")
			w.runs("a@n1")
			w.task("b", "x=1")
			w.waits("b")
			end(w)
			w.runs("b@n1")
			w.has("x", "n1", "1", "0")
		}}
	}
	return []sample{
		back("a task that succeeds gives back what it held", func(w *world) { w.finish("a", 0) }),
		back("one that fails", func(w *world) { w.finish("a", 3) }),
		back("one that is stopped", func(w *world) {
			w.ok(w.Stop(w.ctx, "a", controlplane.StopOptions{Reason: "enough"}))
			w.ended("a")
		}),
		{"one that is evicted, and waits again", func(w *world) {
			w.set("x", "1", on("n1"))
			w.task("a", "x=1")
			w.runs("a@n1")
			w.set("x", "0", on("n1"), closed())
			w.ok(w.Evict(w.ctx, "a", 0))
			w.is("a", types.Pending)
			w.has("x", "n1", "0", "0")
			w.waits("a")
			w.set("x", "1", on("n1"))
			w.runs("a@n1")
		}},
	}
}

// pool is the key of x as a pool of the cluster.
func pool() string { return controlplane.ResourceKey("d", "x", "*") }

// lifetimes are about the lifetimes of a resource.
func lifetimes() []sample {
	return []sample{
		{"with a task", func(w *world) {
			w.task("a", "cpu=1")
			w.set("x", "1", controlplane.InCluster(), with(types.OfTask, "a"))
			w.runs("a")
			w.there(pool())
			w.finish("a", 0)
			w.gone(pool())
		}},
		{"with a session, which also stops its tasks", func(w *world) {
			s, err := w.OpenSession(w.ctx, "app", time.Hour)
			w.ok(err)
			w.set("x", "1", controlplane.InCluster(), with(types.OfSession, s.ID))
			one := submission("a", "x=1")
			one.Task.Session = s.ID
			w.submit(one)
			w.runs("a")
			w.ok(s.Close(w.ctx))
			w.gone(pool())
			w.is("a", types.Cancelled)
		}},
		{"with a reservation", func(w *world) {
			w.ok(w.Reserve(w.ctx, "r", types.Reservation{Bundles: []types.Bundle{{Requests: needs("cpu=1")}}}))
			w.set("x", "1", controlplane.InCluster(), with(types.OfReservation, "r"))
			w.there(pool())
			w.ok(w.Unreserve(w.ctx, "r"))
			w.gone(pool())
		}},
	}
}

// ofJobs are about objects that end with a job.
func ofJobs() []sample {
	return []sample{
		{"with a job: not with its first task, but with its last", func(w *world) {
			w.job("j", submission("a", "cpu=1"), submission("b", "cpu=1"))
			w.set("x", "1", controlplane.InCluster(), with(types.OfJob, "j"))
			w.runs("a", "b")
			w.finish("a", 0)
			w.settle()
			w.there(pool())
			w.finish("b", 1)
			w.gone(pool())
			w.is("a", types.Succeeded) // they are kept, and known
		}},
		{"of a job that is stopped before anything of it ran", func(w *world) {
			w.job("j", submission("a", "x=1", "y=1"))
			w.set("x", "1", controlplane.OnEvery(), with(types.OfJob, "j"))
			w.waits("a")
			w.ok(w.Stop(w.ctx, "a", controlplane.StopOptions{}))
			w.gone(controlplane.ResourceKey("d", "x", "+"))
		}},
		{"of a job whose node was lost, until its next attempt has ended", func(w *world) {
			w.job("j", submission("a", "x=1"))
			w.set("x", "1", controlplane.OnEvery(), with(types.OfJob, "j"))
			w.runs("a")
			v, err := w.c.View(w.ctx)
			w.ok(err)
			_, node := taskOf(v, "a")
			w.kill(node)
			w.await("the next attempt", func(v *cluster.View) bool {
				phase, at := taskOf(v, "a")
				return phase == types.Running && at != node
			})
			w.settle()
			w.there(controlplane.ResourceKey("d", "x", "+"))
			w.finish("a", 0)
			w.gone(controlplane.ResourceKey("d", "x", "+"))
		}},
		{"what it ends with must be there", func(w *world) {
			for _, lifetime := range []types.Lifetime{types.OfTask, types.OfSession, types.OfReservation, types.OfJob} {
				w.refused(types.Precondition, "owner: ", func() error { return w.trySet("x", "1", controlplane.InCluster(), with(lifetime, "none")) })
			}
		}},
		{"a task that holds it then goes on", func(w *world) {
			w.task("owner", "cpu=1")
			w.set("x", "1", controlplane.InCluster(), with(types.OfTask, "owner"))
			w.task("a", "x=1")
			w.runs("owner", "a")
			w.finish("owner", 0)
			w.gone(pool())
			w.settle()
			w.still(types.Running, "a")
		}},
	}
}

// signals are about what tasks provide to others: locality, and order.
func signals() []sample {
	return []sample{
		{"who needs what a task provides is where that is", func(w *world) {
			w.task("with", "near=1")
			w.waits("with")
			w.submit(provides(submission("data", "cpu=1", "node/n2=1"), "near", 5000, types.WhenRunning))
			w.runs("data@n2", "with@n2")
			w.finish("data", 0)
			w.task("late", "near=1")
			w.waits("late")
		}},
		{"what is provided on success is not on failure", func(w *world) {
			w.task("next", "done=1")
			w.submit(provides(submission("fails", "cpu=1"), "done", types.Inf, types.WhenSucceeded))
			w.runs("fails")
			w.finish("fails", 1)
			w.waits("next")
			w.submit(provides(submission("works", "cpu=1"), "done", types.Inf, types.WhenSucceeded))
			w.runs("works")
			w.finish("works", 0)
			w.runs("next")
		}},
		{"what a task left stays", func(w *world) {
			w.submit(provides(submission("a", "node/n1=1"), "done", 1000, types.WhenSucceeded))
			w.runs("a")
			w.finish("a", 0)
			w.settle()
			w.there(controlplane.ProvidedKey("d", "done", "n1"))
			w.task("b", "done=1")
			w.runs("b@n1")
		}},
		{"under a name of its job, until that has ended", func(w *world) {
			w.job("j", provides(submission("a", "node/n1=1"), "j.done", types.Inf, types.WhenSucceeded), submission("b", "j.done=1"))
			w.runs("a")
			w.waits("b")
			w.finish("a", 0)
			w.runs("b@n1")
			w.settle()
			w.there(controlplane.ProvidedKey("d", "j.done", "n1"))
			w.finish("b", 0)
			w.gone(controlplane.ProvidedKey("d", "j.done", "n1"))
		}},
		{"a queue drains as far as it is opened", func(w *world) {
			w.set("q", "0", controlplane.InCluster(), closed())
			w.task("a", "q=1")
			w.task("b", "q=1")
			w.task("c", "q=1")
			w.waits("a", "b", "c")
			w.set("q", "2", controlplane.InCluster())
			w.runs("a", "b")
			w.waits("c")
		}},
	}
}

// locks are about reservations, and atomic changes.
func locks() []sample {
	bundle := func(texts ...string) types.Bundle { return types.Bundle{Requests: needs(texts...)} }
	return []sample{
		{"a reservation is granted whole, or not at all", func(w *world) {
			w.task("big", "cpu=3", "node/n1=1")
			w.runs("big")
			w.ok(w.Reserve(w.ctx, "r", types.Reservation{Bundles: []types.Bundle{bundle("cpu=2"), bundle("cpu=4"), bundle("cpu=4")}}))
			w.settle()
			w.has("cpu", "n2", "4", "4")
			w.has("cpu", "n3", "4", "4")
			w.finish("big", 0)
			w.task("a", "cpu@r=2")
			w.runs("a")
			w.free("cpu", "2")
			w.ok(w.Unreserve(w.ctx, "r"))
			w.finish("a", 0)
			w.await("it is given back", func(v *cluster.View) bool { return len(v.Reservations) == 0 })
			w.free("cpu", "12")
		}},
		{"of ephemeral resources too", func(w *world) {
			w.set("x", "2", on("n2"))
			w.ok(w.Reserve(w.ctx, "r", types.Reservation{Bundles: []types.Bundle{bundle("x=2")}}))
			w.task("a", "x@r=1")
			w.runs("a@n2")
			w.task("other", "x=1")
			w.waits("other")
			w.finish("a", 0)
			w.waits("other")
			w.ok(w.Unreserve(w.ctx, "r"))
			w.runs("other@n2")
		}},
		{"a transaction is done whole, or not at all", func(w *world) {
			w.set("x", "1", on("n1"))
			state, err := cluster.ClusterState(w.ctx, w.Client)
			w.ok(err)
			reads := state.Relied("n1", "x")
			w.set("x", "2", on("n1"))
			w.refused(types.Conflict, "read again", func() error {
				tx := w.Begin(reads).SetResource("y", 1000, controlplane.InCluster(), controlplane.SetOptions{})
				tx.Launch(submission("a", "y=1"))
				_, err := tx.Commit(w.ctx)
				return err
			})
			tx := w.Begin().SetResource("y", 1000, controlplane.InCluster(), controlplane.SetOptions{}).SetResource("x", 0, on("n1"), controlplane.SetOptions{})
			tx.Launch(submission("a", "y=1"))
			_, err = tx.Commit(w.ctx)
			w.ok(err)
			w.runs("a")
			w.has("x", "n1", "-", "-")
		}},
	}
}
