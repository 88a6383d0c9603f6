package explain

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

func reservationSituations() []situation {
	return []situation{
		{name: "reservation is missing", build: func(w *small) {
			w.pair()
			w.launch("t", q{"cpu@train": 1000})
		}},
		{name: "reservation is not granted yet", build: func(w *small) {
			w.pair()
			w.launch("hog", q{"cpu": 1500, "node/n1": 1})
			w.reserve("train", types.Reservation{}, q{"cpu": 2000}, q{"cpu": 2000})
			w.launch("t", q{"cpu@train": 1000})
		}},
		{name: "reservation waits for a resource", build: func(w *small) {
			w.pair()
			w.reserve("train", types.Reservation{}, q{"cpu": 1000, "data": 1000})
			w.launch("t", q{"cpu@train": 1000})
		}},
		{name: "reservation can never be granted", never: true, build: func(w *small) {
			w.pair()
			w.reserve("train", types.Reservation{}, q{"cpu": 2000}, q{"cpu": 2000}, q{"cpu": 2000})
			w.launch("t", q{"cpu@train": 1000})
		}},
		{name: "reservation is being released", build: func(w *small) {
			w.pair()
			w.reserve("train", types.Reservation{}, q{"cpu": 2000})
			w.launch("a", q{"cpu@train": 1000})
			w.must(w.client.Unreserve(context.Background(), "train"))
			w.launch("t", q{"cpu@train": 1000})
		}},
		{name: "larger than its reservation", never: true, build: func(w *small) {
			w.pair()
			w.reserve("train", types.Reservation{}, q{"cpu": 1500})
			w.launch("t", q{"cpu@train": 2000})
		}},
		{name: "its reservation is in use", build: func(w *small) {
			w.pair()
			w.reserve("train", types.Reservation{}, q{"cpu": 1500})
			w.launch("a", q{"cpu@train": 1000})
			w.launch("t", q{"cpu@train": 1000})
		}},
		{name: "its reservation holds none of it", never: true, build: func(w *small) {
			w.pair()
			w.reserve("train", types.Reservation{}, q{"cpu": 1500})
			w.launch("t", q{"gpu@train": 1000})
		}},
	}
}

func grantSituations() []situation {
	return []situation{
		{name: "a reservation waits for one task", ask: "reservation/train", build: func(w *small) {
			w.pair()
			w.launch("hog", q{"cpu": 500, "node/n1": 1})
			w.reserve("train", types.Reservation{}, q{"cpu": 2000}, q{"cpu": 2000})
		}},
		{name: "a reservation waits for a reservation", ask: "reservation/train", build: func(w *small) {
			w.pair()
			w.reserve("first", types.Reservation{}, q{"cpu": 1500}, q{"cpu": 1500})
			w.reserve("train", types.Reservation{}, q{"cpu": 1000})
		}},
		{name: "a gang fits in all but not on one node", ask: "reservation/train", build: func(w *small) {
			w.pair()
			w.launch("a", q{"cpu": 1000, "node/n1": 1})
			w.launch("b", q{"cpu": 1000, "node/n2": 1})
			w.reserve("train", types.Reservation{}, q{"cpu": 1500})
		}},
		{name: "a reservation that can never be granted", ask: "reservation/train", never: true, build: func(w *small) {
			w.pair()
			w.reserve("train", types.Reservation{}, q{"cpu": 1500}, q{"cpu": 1500}, q{"cpu": 1500})
		}},
		{name: "a reservation of a bundle too large", ask: "reservation/train", never: true, build: func(w *small) {
			w.pair()
			w.reserve("train", types.Reservation{}, q{"cpu": 3000})
		}},
		{name: "a reservation that accumulates", ask: "reservation/big", build: func(w *small) {
			w.pair()
			w.launch("a", q{"cpu": 1500, "node/n1": 1})
			w.reserve("big", types.Reservation{Accumulate: true}, q{"cpu": 2000}, q{"cpu": 2000})
			w.collects("big", "n2", "n1")
		}},
		{name: "a reservation soon accumulates", ask: "reservation/big", build: func(w *small) {
			w.pair()
			w.launch("a", q{"cpu": 1500, "node/n1": 1})
			w.reserve("big", types.Reservation{Accumulate: true}, q{"cpu": 2000}, q{"cpu": 2000})
		}},
		{name: "a reservation is being granted", ask: "reservation/train", build: func(w *small) {
			w.pair()
			w.granting("n1", "n2")
		}},
		{name: "a task waits for what is being granted", build: func(w *small) {
			w.pair()
			w.granting("n1", "n2")
			w.put(controlplane.TaskKey("d", "t"), &types.Task{Requests: types.NewRequests(q{"cpu@train": 2000}), Submitted: w.now.UnixNano()})
		}},
		{name: "a reservation is no longer being granted", ask: "reservation/train", build: func(w *small) {
			w.pair()
			w.granting("n1", "")
		}},
		{name: "a reservation is granted", ask: "reservation/train", build: func(w *small) {
			w.pair()
			w.reserve("train", types.Reservation{}, q{"cpu": 1500}, q{"cpu": 1500})
			w.launch("a", q{"cpu@train": 1000, "node/n2": 1})
		}},
		{name: "a reservation is released", ask: "reservation/train", build: func(w *small) {
			w.pair()
			w.reserve("train", types.Reservation{}, q{"cpu": 1500})
			w.launch("a", q{"cpu@train": 1000})
			w.must(w.client.Unreserve(context.Background(), "train"))
			w.settle()
		}},
	}
}

// granting is a reservation of two bundles on nodes, which holds the part of the first.
func (w *small) granting(nodes ...string) {
	two := []types.Bundle{bundleOf(q{"cpu": 2000}), bundleOf(q{"cpu": 2000})}
	create := w.put(controlplane.ReservationKey("d", "train"), &types.Reservation{Bundles: two, Submitted: w.now.UnixNano()})
	g := &types.Grant{Phase: types.Granting, Reservation: create, Bundles: nodes}
	for i, name := range nodes {
		if name == "" {
			continue
		}
		g.Nodes = append(g.Nodes, types.GrantNode{Node: name})
		if i == 0 {
			g.Nodes[0].Holds = []types.Holding{{Resource: types.CPU, Amount: 2000}}
		}
	}
	w.put(controlplane.GrantKey("d", "train"), g, controlplane.AllocatedKey("n1"), &types.Allocated{Holds: g.Nodes[0].Holds})
}

func placeSituations() []situation {
	return []situation{
		{name: "its node is dead", build: func(w *small) {
			w.pair()
			w.lose("n1")
			w.launch("t", q{"node/n1": 1, "cpu": 100})
		}},
		{name: "its node is cordoned", build: func(w *small) {
			w.pair()
			w.put(controlplane.CordonKey("n1"), &types.Cordon{Reason: "new disk"})
			w.launch("t", q{"node/n1": 1, "cpu": 100})
		}},
		{name: "its node is unknown", never: true, build: func(w *small) {
			w.pair()
			w.launch("t", q{"node/n9": 1, "cpu": 100})
		}},
		{name: "its node is full", build: func(w *small) {
			w.pair()
			w.launch("hog", q{"node/n1": 1, "cpu": 2000})
			w.launch("t", q{"node/n1": 1, "cpu": 100})
		}},
		{name: "its node is too small", never: true, build: func(w *small) {
			w.pair()
			w.nodes(q{"cpu": 8000}, "n3")
			w.launch("t", q{"node/n1": 1, "cpu": 4000})
		}},
		{name: "no node of its rack", never: true, build: func(w *small) {
			w.pair()
			w.launch("t", q{"rack/r7": 1})
		}},
		{name: "no node is in both places", never: true, build: func(w *small) {
			label := func(name, value string) types.Node {
				return types.Node{Capacity: types.NewRequests(q{"cpu": 2000}), Labels: []types.Label{{Name: name, Value: value}}}
			}
			w.large("n1", label("rack", "r1"))
			w.large("n2", label("zone", "a"))
			w.launch("t", q{"rack/r1": 1, "zone/a": 1})
		}},
		{name: "its zone is dead", build: func(w *small) {
			zone := types.Node{Capacity: types.NewRequests(q{"cpu": 2000}), Labels: []types.Label{{Name: "zone", Value: "a"}}}
			w.large("n1", zone)
			w.large("n2", zone)
			w.nodes(q{"cpu": 2000}, "n3")
			w.lose("n1", "n2")
			w.launch("t", q{"zone/a": 1})
		}},
	}
}

func alternatives(all ...types.Alternative) func(*types.Task) {
	return func(t *types.Task) { t.Alternatives = all }
}

func alternative(requests q, after time.Duration) types.Alternative {
	return types.Alternative{Requests: types.NewRequests(requests), After: after}
}

func alternativeSituations() []situation {
	return []situation{
		{name: "an alternative is allowed later", build: func(w *small) {
			w.pair()
			w.launch("t", q{"cpu": 100}, alternatives(alternative(q{"data": 1000}, 0), alternative(q{"rack/r1": 1}, time.Second), alternative(q{}, 90*time.Second)))
		}},
		{name: "alternatives that all wait", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("hog", q{"cpu": 2000})
			w.launch("t", q{}, alternatives(alternative(q{"cpu": 9000}, 0), alternative(q{"cpu": 1000}, 0), alternative(q{"data": 1000}, 0)))
		}},
		{name: "alternatives that can never be met", never: true, build: func(w *small) {
			w.pair()
			w.launch("t", q{}, alternatives(alternative(q{"cpu": 9000}, 0), alternative(q{"gpu": 1000}, 0)))
		}},
	}
}

func taskSituations() []situation {
	return []situation{
		{name: "its job is not complete", build: func(w *small) {
			w.pair()
			w.put(controlplane.TaskKey("d", "t"), &types.Task{Job: "j", Submitted: w.now.UnixNano()})
		}},
		{name: "admission is closed", build: func(w *small) {
			w.pair()
			w.put(controlplane.TaskKey("d", "t"), &types.Task{Job: "j", Submitted: w.now.UnixNano()})
			w.put(controlplane.AdmissionKey(), &types.Admission{Reason: "the database is 71 % full"})
		}},
		{name: "its scheduler is not there", build: func(w *small) {
			w.pair()
			w.put(controlplane.SchedulerKey("s1"), &types.Leader{Holder: "s1"})
			w.launch("t", q{"cpu": 100}, func(t *types.Task) { t.Scheduler = "mine" })
		}},
		{name: "no scheduler runs", build: func(w *small) {
			w.pair()
			w.put(controlplane.TaskKey("d", "t"), &types.Task{Requests: types.NewRequests(q{"cpu": 100}), Submitted: w.now.UnixNano()})
		}},
		{name: "its deadline is near", build: func(w *small) {
			w.pair()
			w.launch("t", q{"data": 1000}, func(t *types.Task) { t.Deadline = w.now.Add(90 * time.Second).UnixNano() })
		}},
		{name: "stopped while it waits", build: func(w *small) {
			w.launch("t", q{"cpu": 100})
			w.must(w.client.Stop(context.Background(), "t", controlplane.StopOptions{Reason: "no longer needed"}))
		}},
		{name: "evicted and waits again", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 2000})
			w.runs("t")
			w.must(w.client.Evict(context.Background(), "t", 1))
			w.put(controlplane.CordonKey("n1"), &types.Cordon{Reason: "new disk"})
			w.settle()
			w.report("t", types.Report{Phase: types.ReportExited, Stopped: true, ExitCode: 143})
		}},
		{name: "its node was lost and it waits again", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 2000})
			w.runs("t")
			w.lose("n1")
			w.settle()
		}},
	}
}

func leavingSituations() []situation {
	return []situation{
		{name: "who has the room is being evicted", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("a", q{"cpu": 1000})
			w.launch("b", q{"cpu": 500})
			w.runs("a", "b")
			w.must(w.client.Evict(context.Background(), "b", 1))
			w.settle()
			w.launch("t", q{"cpu": 1000})
		}},
		{name: "room is being made for it", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("a", q{"cpu": 1000})
			w.launch("b", q{"cpu": 500})
			w.runs("a", "b")
			w.must(w.client.Evict(context.Background(), "b", 1))
			w.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 1})
			w.reserve("j.room", types.Reservation{Collect: &types.Collect{On: []string{"n1"}, HandOver: true}, Job: "j", Priority: 1,
				Bundles: []types.Bundle{{Node: "n1", Requests: types.NewRequests(q{"cpu": 1000})}}})
			w.settle()
			w.put(controlplane.TaskKey("d", "t"), &types.Task{Job: "j", Requests: types.NewRequests(q{"cpu": 1000}), Submitted: w.now.UnixNano()})
			w.settle()
		}},
		{name: "a gang waits with its members", ask: "reservation/j.gang", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("a", q{"cpu": 1500})
			w.runs("a")
			w.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 2})
			for _, id := range []string{"j.0", "j.1"} {
				w.put(controlplane.TaskKey("d", id), &types.Task{Job: "j", Requests: types.NewRequests(q{"cpu@j.gang": 1000}), Submitted: w.now.UnixNano()})
			}
			w.reserve("j.gang", types.Reservation{Job: "j"}, q{"cpu": 1000}, q{"cpu": 1000})
		}},
		{name: "one of those that have the room is being stopped", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("a", q{"cpu": 1000})
			w.launch("b", q{"cpu": 1000})
			w.runs("a", "b")
			w.must(w.client.Stop(context.Background(), "b", controlplane.StopOptions{}))
			w.settle()
			w.launch("t", q{"cpu": 2000})
		}},
	}
}

func boundSituations() []situation {
	return []situation{
		{name: "being started", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 1000})
			w.later(3 * time.Second)
		}},
		{name: "its image cannot be pulled now", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 1000})
			w.report("t", types.Report{Phase: types.ReportStarting, Reason: "pull busybox:1: connection refused; again in 8s"})
		}},
		{name: "its agent does not answer", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1", "n2", "n3")
			w.launch("t", q{"cpu": 1000, "node/n1": 1})
			w.runs("t")
			w.lose("n1", "n2", "n3")
		}},
		{name: "kept for a node that is lost", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 1000}, func(t *types.Task) { t.OnDisconnect = types.Keep })
			w.runs("t")
			w.lose("n1")
			w.settle()
		}},
		{name: "to fail with a node that is lost", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1", "n2", "n3")
			w.launch("t", q{"cpu": 1000, "node/n1": 1}, func(t *types.Task) { t.OnDisconnect = types.StopLost })
			w.runs("t")
			w.lose("n1")
		}},
		{name: "failed with a node that was lost", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 1000}, func(t *types.Task) { t.OnDisconnect = types.StopLost })
			w.runs("t")
			w.lose("n1")
			w.settle()
		}},
	}
}

func runningSituations() []situation {
	return []situation{
		{name: "restarting", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 1000})
			w.runs("t")
			w.report("t", types.Report{Phase: types.ReportRunning, Started: w.now.UnixNano(), Restarts: 3, Reason: "exit code 1: restarts in 2s (3 of 5)"})
		}},
		{name: "unhealthy", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 1000})
			w.runs("t")
			w.report("t", types.Report{Phase: types.ReportRunning, Started: w.now.UnixNano(), Restarts: 1, Health: types.Unhealthy, Reason: "check web: connection refused"})
		}},
		{name: "not healthy yet", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 1000})
			w.runs("t")
			w.report("t", types.Report{Phase: types.ReportRunning, Started: w.now.UnixNano(), Health: types.HealthStarting})
			w.later(5 * time.Second)
		}},
		{name: "running", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 1000}, func(t *types.Task) { t.MaxRun = time.Hour })
			w.runs("t")
			w.later(90 * time.Second)
		}},
		{name: "being stopped", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 1000})
			w.runs("t")
			w.must(w.client.Stop(context.Background(), "t", controlplane.StopOptions{Reason: "stopped by escher stop"}))
			w.settle()
		}},
	}
}

func endedSituations() []situation {
	return []situation{
		{name: "succeeded", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 1000})
			w.runs("t")
			w.ends("t", 0, "")
		}},
		{name: "out of memory", build: func(w *small) {
			w.nodes(q{"cpu": 2000, "memory": gi}, "n1")
			w.launch("t", q{"memory": 64 << 20})
			w.runs("t")
			w.ends("t", 137, "out of memory")
		}},
		{name: "command not found", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 1000})
			w.ends("t", 127, `exec: "nosuch": executable file not found in $PATH`)
		}},
		{name: "failed", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("t", q{"cpu": 1000})
			w.runs("t")
			w.ends("t", 3, "")
		}},
		{name: "cancelled while it waited", build: func(w *small) {
			w.launch("t", q{"cpu": 100})
			w.must(w.client.Stop(context.Background(), "t", controlplane.StopOptions{Reason: "stopped by escher stop"}))
			w.settle()
		}},
	}
}

func otherSituations() []situation {
	job := func(w *small, requests ...q) {
		w.later(time.Second)
		var tasks []controlplane.Submission
		for i, r := range requests {
			tasks = append(tasks, submission("j-"+string(rune('a'+i)), r))
		}
		_, err := w.client.LaunchJob(context.Background(), controlplane.Job{ID: "j", Tasks: tasks})
		w.must(err)
		w.settle()
	}
	return []situation{
		{name: "a job of which some wait", ask: "job/j", never: true, build: func(w *small) {
			w.pair()
			job(w, q{"cpu": 2000}, q{"cpu": 2000}, q{"cpu": 2000}, q{"cpu": 2000}, q{"data": 1000}, q{"cpu": 9000})
			w.runs("j-a")
			w.ends("j-a", 1, "")
		}},
		{name: "a job that waits for its reservation", ask: "job/j", build: func(w *small) {
			w.pair()
			w.launch("hog", q{"cpu": 1500, "node/n1": 1})
			w.reserve("train", types.Reservation{}, q{"cpu": 2000}, q{"cpu": 2000})
			job(w, q{"cpu@train": 2000}, q{"cpu@train": 2000})
		}},
		{name: "a job that was cancelled", ask: "job/j", build: func(w *small) {
			w.pair()
			job(w, q{"data": 1000}, q{"data": 1000})
			w.must(w.client.Stop(context.Background(), "j-a", controlplane.StopOptions{Reason: "superseded"}))
			w.settle()
		}},
		{name: "a job that has ended", ask: "job/j", build: func(w *small) {
			w.pair()
			job(w, q{"cpu": 1000}, q{"cpu": 1000})
			w.runs("j-a", "j-b")
			w.ends("j-a", 0, "")
			w.ends("j-b", 137, "out of memory")
		}},
		{name: "a job with an unfinished update", ask: "job/j", build: func(w *small) {
			w.pair()
			job(w, q{"cpu": 1000}, q{"cpu": 1000}, q{"cpu": 1000})
			w.runs("j-a", "j-b", "j-c")
			w.put(controlplane.JobKey("d", "j"), &types.Job{Tasks: 2, Updating: true})
		}},
		{name: "a job that is not complete", ask: "job/j", build: func(w *small) {
			w.put(controlplane.TaskKey("d", "t"), &types.Task{Job: "j", Submitted: w.now.UnixNano()})
		}},
		{name: "a node that is full", ask: "node/n1", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.set("data", 1000, on("n1"))
			w.launch("hog", q{"cpu": 2000})
			w.runs("hog")
			w.launch("t", q{"cpu": 1000})
			w.launch("u", q{"other": 1000})
		}},
		{name: "a node that is cordoned", ask: "node/n1", build: func(w *small) {
			w.nodes(q{"cpu": 2000}, "n1")
			w.launch("hog", q{"cpu": 2000})
			w.put(controlplane.CordonKey("n1"), &types.Cordon{Reason: "new disk"})
		}},
		{name: "a node that is lost", ask: "node/n1", build: func(w *small) {
			w.pair()
			w.lose("n1")
		}},
		{name: "a node that has nothing to do", ask: "node/n1", build: func(w *small) { w.pair() }},
	}
}
