package esltest

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TaskOn is a task for one node.
func TaskOn(node string, milliCPU types.Quantity, command ...string) controlplane.Submission {
	x := hollow.Task(int(milliCPU), command...)
	x.Task.Requests = x.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"node/" + node: 1000}))
	return x
}

// WatchSkew follows the tasks of a name, revision by revision, until stop. Then it sends the
// largest difference of their number between two of n domains.
func (s *Site) WatchSkew(name string, in esl.Domain, n int) (skew <-chan int, stop func()) {
	ctx, stop := context.WithCancel(s.Context())
	out := make(chan int, 1)
	go func() {
		most, at := 0, int64(0)
		v := cluster.New()
		look := func() {
			count := make(map[string]int)
			for _, node := range v.Nodes {
				for _, b := range node.Bindings {
					if b.Task.Info.V != nil && b.Task.Info.V.Name == name && b.Info.V != nil {
						count[node.Info.V.Label(string(in))]++
					}
				}
			}
			low, high := 1<<30, 0
			for _, c := range count {
				low, high = min(low, c), max(high, c)
			}
			if len(count) < n {
				low = 0
			}
			most = max(most, high-low)
		}
		err := controlplane.ListWatch(ctx, s.C.Store, controlplane.ListWatchOptions{Prefix: controlplane.Root}, func(u controlplane.Update) error {
			for _, e := range u.Events {
				if e.ModRevision != at && !u.Synced {
					look()
					at = e.ModRevision
				}
				if _, _, err := v.Apply(e); err != nil {
					return err
				}
			}
			v.Reached(u.Revision)
			look()
			return nil
		})
		if err != nil && ctx.Err() == nil {
			s.Error(err)
		}
		out <- most
	}()
	return out, stop
}

// Count is the number of a job's tasks that run on a node.
func (s *Site) Count(job controlplane.Launched, node string) int {
	s.Helper()
	running, n := hollow.Running(s.Snapshot(), "d"), 0
	for _, id := range job.Tasks {
		if running[id] == node {
			n++
		}
	}
	return n
}

// WatchMost follows the tasks of a name, revision by revision, until stop. Then it sends the largest
// number that had a node at once.
func (s *Site) WatchMost(name string) (most <-chan int, stop func()) {
	return s.WatchSkew(name, "", 2) // one domain without a name has all of them, another one none
}
