package explain

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/quotas"
	"github.com/escher-sched/escher/types"
)

// situation is a state to explain. It has two nodes of two cpu, unless it makes its own.
type situation struct {
	name  string
	build func(w *small)
	// ask is the object to explain; empty means task t.
	ask string
	// never reports whether it is infeasible.
	never bool
}

func (s situation) asked() string {
	if s.ask == "" {
		return "task/t"
	}
	return s.ask
}

func situations() []situation {
	out := nodeSituations()
	for _, more := range []func() []situation{
		roomSituations, permitSituations, deviceSituations, choiceSituations, reservedSituations, collectSituations, resourceSituations, provideSituations, poolSituations, reservationSituations,
		grantSituations, placeSituations, alternativeSituations, taskSituations, leavingSituations, boundSituations, runningSituations, endedSituations, otherSituations,
	} {
		out = append(out, more()...)
	}
	return out
}

// pair registers two nodes of two cpu.
func (w *small) pair() { w.nodes(q{"cpu": 2000}, "n1", "n2") }

const gi = 1 << 30

func on(node string) controlplane.Where { return controlplane.OnNode(node) }

func provides(name string, when types.When) func(*types.Task) {
	return func(t *types.Task) { t.Provides = []types.Provide{{Name: name, Amount: 1000, When: when}} }
}

func priority(n int) func(*types.Task) { return func(t *types.Task) { t.Priority = n } }

func nodeSituations() []situation {
	return []situation{
		{name: "no node", build: func(w *small) { w.launch("t", q{"cpu": 100}) }},
		{name: "no live node", build: func(w *small) {
			w.pair()
			w.lose("n1", "n2")
			w.launch("t", q{"cpu": 100})
		}},
		{name: "one dead one cordoned", build: func(w *small) {
			w.pair()
			w.lose("n2")
			w.put(controlplane.CordonKey("n1"), &types.Cordon{Reason: "new disk"})
			w.launch("t", q{"cpu": 100})
		}},
		{name: "too much cpu for every node", never: true, build: func(w *small) {
			w.pair()
			w.lose("n1")
			w.put(controlplane.CordonKey("n2"), &types.Cordon{})
			w.launch("t", q{"cpu": 3000})
		}},
		{name: "no gpu anywhere", never: true, build: func(w *small) {
			w.pair()
			w.launch("t", q{"gpu": 1000})
		}},
		{name: "too much in combination", never: true, build: func(w *small) {
			w.nodes(q{"cpu": 2000, "memory": 64 * gi}, "n1")
			w.nodes(q{"cpu": 2000, "memory": 8 * gi, "gpu": 2000}, "n2")
			w.launch("t", q{"memory": 32 * gi, "gpu": 1000})
		}},
		{name: "only a cordoned node is large enough", build: func(w *small) {
			w.pair()
			w.nodes(q{"cpu": 8000}, "n3")
			w.put(controlplane.CordonKey("n3"), &types.Cordon{Reason: "firmware"})
			w.launch("t", q{"cpu": 4000})
		}},
		{name: "more than one device but no whole number", never: true, build: func(w *small) {
			w.nodes(q{"gpu": 2000}, "n1")
			w.put(controlplane.DevicesKey("n1"), gpus("", ""))
			w.launch("t", q{"gpu": 1500})
		}},
	}
}

func gpus(health ...string) *types.Devices {
	d := &types.Devices{}
	for i, bad := range health {
		d.Devices = append(d.Devices, types.Device{ID: "gpu-" + string(rune('a'+i)), Resource: types.GPU, Unhealthy: bad})
	}
	return d
}

func roomSituations() []situation {
	return []situation{
		{name: "full and the holder is named", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("hog", q{"cpu": 1500}, func(t *types.Task) { t.MaxRun = time.Hour })
			w.runs("hog")
			w.launch("t", q{"cpu": 1000})
		}},
		{name: "full of several", build: func(w *small) {
			w.pair()
			for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				w.launch(id, q{"cpu": 500})
			}
			w.launch("t", q{"cpu": 1500})
		}},
		{name: "full by higher priority", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("urgent", q{"cpu": 2000}, priority(10))
			w.launch("next", q{"cpu": 2000}, priority(5))
			w.launch("t", q{"cpu": 2000})
		}},
		{name: "behind others of its shape", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			for _, id := range []string{"a", "b", "c"} {
				w.launch(id, q{"cpu": 2000})
			}
			w.launch("other", q{"cpu": 1900})
			w.launch("t", q{"cpu": 2000})
		}},
		{name: "held by a task of another namespace", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.put(controlplane.TaskKey("other", "hog"), &types.Task{Requests: types.NewRequests(q{"cpu": 2000}), Submitted: 1})
			w.settle()
			w.launch("t", q{"cpu": 1000})
		}},
		{name: "cpu and memory are short", build: func(w *small) {
			w.nodes(q{"cpu": 2000, "memory": 2 * gi}, "n1")
			w.launch("hog", q{"cpu": 1500, "memory": 2*gi - gi/2})
			w.launch("t", q{"cpu": 1000, "memory": gi})
		}},
	}
}

func deviceSituations() []situation {
	return []situation{
		{name: "gpus in pieces", build: func(w *small) {
			w.nodes(q{"gpu": 2000}, "n1")
			w.put(controlplane.DevicesKey("n1"), gpus("", ""))
			w.launch("a", q{"gpu": 600})
			w.launch("b", q{"gpu": 600})
			w.launch("t", q{"gpu": 500})
		}},
		{name: "unhealthy device", build: func(w *small) {
			w.nodes(q{"gpu": 1000}, "n1")
			w.put(controlplane.DevicesKey("n1"), gpus("ECC errors"))
			w.launch("t", q{"gpu": 1000})
		}},
		{name: "fixed port is taken", build: func(w *small) {
			w.pair()
			w.launch("web", q{"port/8080": 1000, "node/n1": 1})
			w.runs("web")
			w.launch("t", q{"port/8080": 1000, "node/n1": 1})
		}},
		{name: "fixed port of the range", never: true, build: func(w *small) {
			w.large("n1", types.Node{Capacity: types.NewRequests(q{"cpu": 2000}), PortFirst: 20000, PortLast: 20001})
			w.launch("t", q{"port/20001": 1000})
		}},
		{name: "port range is exhausted", build: func(w *small) {
			w.large("n1", types.Node{Capacity: types.NewRequests(q{"cpu": 2000}), PortFirst: 20000, PortLast: 20001})
			w.launch("web", q{"port": 1000})
			w.launch("t", q{"port": 2000})
		}},
		{name: "an accumulating reservation has the room", build: func(w *small) {
			w.pair()
			w.launch("a", q{"cpu": 2000, "node/n1": 1})
			w.reserve("big", types.Reservation{Accumulate: true}, q{"cpu": 2000}, q{"cpu": 2000})
			w.collects("big", "n2", "n1")
			w.launch("t", q{"cpu": 1000})
		}},
		{name: "a granted reservation has the room", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.reserve("train", types.Reservation{}, q{"cpu": 2000})
			w.launch("t", q{"cpu": 1000})
		}},
	}
}

func collectSituations() []situation {
	return []situation{
		{name: "a task that collects", build: func(w *small) {
			w.pair()
			w.nodes(q{"cpu": 4000, "gpu": 4000}, "n3")
			w.launch("a", q{"cpu": 1500, "gpu": 2000})
			w.launch("t", q{"cpu": 4000, "gpu": 4000}, accumulates)
			w.collects("t", "n3")
		}},
		{name: "a task soon collects", build: func(w *small) {
			w.pair()
			w.launch("a", q{"cpu": 1500, "node/n1": 1})
			w.launch("b", q{"cpu": 500, "node/n2": 1})
			w.launch("t", q{"cpu": 2000}, accumulates)
		}},
		{name: "another task collects", build: func(w *small) {
			w.pair()
			w.launch("a", q{"cpu": 1500, "node/n1": 1})
			w.launch("b", q{"cpu": 500, "node/n2": 1})
			w.launch("large", q{"cpu": 2000}, accumulates)
			w.collects("large", "n2")
			w.launch("t", q{"cpu": 1900}, accumulates)
		}},
		{name: "a task that collects has the room", build: func(w *small) {
			w.pair()
			w.launch("a", q{"cpu": 500, "node/n1": 1})
			w.launch("b", q{"cpu": 1500, "node/n2": 1})
			w.launch("large", q{"cpu": 2000}, accumulates)
			w.collects("large", "n1")
			w.launch("t", q{"cpu": 1000})
		}},
	}
}

func resourceSituations() []situation {
	return []situation{
		{name: "resource does not exist", build: func(w *small) {
			w.pair()
			w.launch("t", q{"data": 1000})
		}},
		{name: "resource is mistyped", build: func(w *small) {
			w.pair()
			w.launch("t", q{"cpus": 1000})
		}},
		{name: "closed pool", build: func(w *small) {
			w.pair()
			w.set("queue", 0, controlplane.InCluster())
			w.launch("t", q{"queue": 1000})
		}},
		{name: "closed on every node", build: func(w *small) {
			w.pair()
			w.set("slot", 0, controlplane.OnEvery())
			w.launch("t", q{"slot": 1000})
		}},
		{name: "capacity too low", build: func(w *small) {
			w.pair()
			w.set("co", 500, on("n1"))
			w.launch("t", q{"co": 1000})
		}},
		{name: "resource is on a full node", build: func(w *small) {
			w.pair()
			w.set("data", 1000, on("n1"))
			w.launch("hog", q{"cpu": 1500, "node/n1": 1})
			w.runs("hog")
			w.launch("t", q{"data": 1000, "cpu": 1000})
		}},
		{name: "resource is used up", build: func(w *small) {
			w.pair()
			w.set("co", 1000, on("n1"))
			w.launch("first", q{"co": 1000})
			w.launch("t", q{"co": 1000})
		}},
		{name: "less than nothing is free", build: func(w *small) {
			w.pair()
			w.set("co", 4000, on("n1"))
			w.launch("first", q{"co": 4000})
			w.set("co", 2000, on("n1"))
			w.launch("t", q{"co": 1000})
		}},
		{name: "resource is elsewhere", build: func(w *small) {
			w.pair()
			w.set("data", 1000, on("n2"))
			w.launch("t", q{"data": 1000, "node/n1": 1})
		}},
		{name: "resource of a former session", build: func(w *small) {
			w.pair()
			w.set("data", 1000, on("n1"))
			w.lose("n1")
			w.put(controlplane.AliveKey("n1"), &types.Alive{})
			w.launch("t", q{"data": 1000})
		}},
		{name: "resource is on a dead node", build: func(w *small) {
			w.pair()
			w.set("data", 1000, on("n1"))
			w.lose("n1")
			w.launch("t", q{"data": 1000})
		}},
	}
}

func provideSituations() []situation {
	return []situation{
		{name: "to be provided by a task that waits", build: func(w *small) {
			w.pair()
			w.launch("giver", q{"cpu": 9000}, provides("data", types.WhenRunning))
			w.launch("t", q{"data": 1000})
		}},
		{name: "to be provided by itself alone", build: func(w *small) {
			w.pair()
			w.launch("t", q{"data": 1000}, provides("data", types.WhenRunning))
		}},
		{name: "to be provided by a task that waits for it", build: func(w *small) {
			w.pair()
			w.launch("giver", q{"other": 1000}, provides("data", types.WhenRunning))
			w.launch("t", q{"data": 1000}, provides("other", types.WhenRunning))
		}},
		{name: "to be provided by a task that starts", build: func(w *small) {
			w.pair()
			w.launch("giver", q{"cpu": 1000}, provides("data", types.WhenRunning))
			w.launch("t", q{"data": 1000})
		}},
		{name: "provided on a full node", build: func(w *small) {
			w.pair()
			w.launch("giver", q{"cpu": 1500, "node/n1": 1}, provides("data", types.WhenRunning))
			w.runs("giver")
			w.launch("t", q{"data": 1000, "cpu": 1000})
		}},
		{name: "provided while a task ran", build: func(w *small) {
			w.pair()
			w.launch("giver", q{"cpu": 1000, "node/n1": 1}, provides("data", types.WhenRunning))
			w.runs("giver")
			w.ends("giver", 0, "")
			w.launch("t", q{"data": 1000})
		}},
		{name: "on nodes of a label that are dead", build: func(w *small) {
			ssd := []types.Label{{Name: "disk", Value: "ssd"}}
			w.nodes(q{"cpu": 2000}, "n1")
			w.large("n2", types.Node{Capacity: types.NewRequests(q{"cpu": 2000}), Labels: ssd})
			w.set("cache", 1000, controlplane.OnEvery(ssd...))
			w.lose("n2")
			w.launch("t", q{"cache": 1000})
		}},
		{name: "to be provided by a task that failed", build: func(w *small) {
			w.pair()
			w.launch("giver", q{"cpu": 1000, "node/n1": 1}, provides("data", types.WhenSucceeded))
			w.runs("giver")
			w.ends("giver", 1, "")
			w.launch("t", q{"data": 1000})
		}},
		{name: "to be provided when a task succeeds", build: func(w *small) {
			w.pair()
			w.launch("giver", q{"cpu": 1000, "node/n1": 1}, provides("data", types.WhenSucceeded))
			w.runs("giver")
			w.launch("t", q{"data": 1000})
		}},
	}
}

func poolSituations() []situation {
	return []situation{
		{name: "pool is exhausted", build: func(w *small) {
			w.pair()
			w.set("licence", 2000, controlplane.InCluster())
			w.launch("a", q{"licence": 1000})
			w.launch("b", q{"licence": 1000})
			w.launch("t", q{"licence": 1000})
		}},
		{name: "quota of the namespace", build: func(w *small) {
			w.pair()
			admin, err := controlplane.New(w.store, "admin")
			w.must(err)
			_, err = admin.SetResource(context.Background(), "cpus", 2000, controlplane.InCluster(), controlplane.SetOptions{})
			w.must(err)
			w.put(controlplane.NamespaceKey("d"), &types.Namespace{Quotas: []types.Quota{{Resource: types.CPU, Pool: "admin:cpus"}}})
			w.launch("first", q{"cpu": 1500})
			w.launch("t", q{"cpu": 1000})
		}},
		{name: "amount of the namespace", build: func(w *small) {
			w.pair()
			w.quota("cpu", "2")
			w.launch("first", q{"cpu": 1500})
			w.launch("t", q{"cpu": 1000})
		}},
		{name: "more than the amount of the namespace", build: func(w *small) {
			w.pair()
			w.quota("cpu", "1")
			w.launch("t", q{"cpu": 1500})
		}},
	}
}

// quota bounds what the tasks of the namespace may request together.
func (w *small) quota(resource, amount string) {
	x, err := quotas.Parse("d", resource, amount)
	w.must(err)
	w.must(quotas.Set(context.Background(), w.client, "d", func(n *types.Namespace) error {
		n.Quotas = append(n.Quotas, x)
		return nil
	}))
}
