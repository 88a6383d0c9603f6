package room

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// The service that jobs have attained: devices times time, over all attempts of their tasks. By it they are
// in one of two queues: discretized two-dimensional LAS (Tiresias, NSDI 2019).
//
// The view has the last attempt of each task. What it no longer has is in two pools of the policy for the
// job: how much was counted, and until when. So any process that runs the policy knows the service. An
// attempt counts with the part after that time. The pools are written when an attempt has ended that will
// be followed by another one, and when the job changes its queue.

// service is what a job has attained and waits for.
type service struct {
	job string
	// served is the device time in seconds since the job came to the first queue; recorded is the part of
	// it that the pools have.
	served, recorded float64
	// rate is how many devices its tasks hold now, devices how many all of its tasks request.
	rate, devices float64
	// second reports whether it is in the second queue, known whether it has pools, and stale whether the
	// next attempt of a task will replace one in the view that the pools do not have.
	second, known, stale bool
	// waits reports whether a task waits; its priority and submitted are those of the first.
	waits     bool
	priority  int
	submitted int64
	// since is when the first of its tasks that have not ended was submitted, rank its place among all
	// jobs, from 1, and long reports whether it has waited for long.
	since int64
	rank  int
	long  bool
	// left is when the latest of its attempts ended, in Unix nanoseconds.
	left int64
	// back is when it comes from the second queue to the first again, if nothing of it runs until then.
	back time.Time
}

// census is the jobs of the policy that have tasks left, by id.
type census struct {
	s *esl.State
	// threshold is the service of the second queue, in seconds of device time.
	threshold float64
	// starve is how many times as long as it ran a job of the second queue waits at most.
	starve time.Duration
	jobs   []*service
	byID   map[string]*service
	// first is the number of jobs in the first queue.
	first int
	// rooms are the reservations of the policy, and free the ids for more.
	rooms []*cluster.Reservation
	free  []string
	// waits is what waits of the jobs that matter now.
	waits []taskset.Wish
}

// The pools of a job.
const (
	servedPool = ".served" // thousandths of a second of device time
	untilPool  = ".until"  // milliseconds since 1970
)

// censusOf counts what the jobs of a shared policy have attained.
func censusOf(s *esl.State, threshold time.Duration, starve int) *census {
	c := &census{s: s, threshold: threshold.Seconds(), starve: time.Duration(starve), byID: make(map[string]*service)}
	c.rooms, c.free = taskset.Numbered(s, atATime)
	for _, job := range slices.Sorted(maps.Keys(s.Referring())) {
		x := &service{job: job}
		until := int64(0)
		if p, at := s.Pool(s.Own(job+servedPool)), s.Pool(s.Own(job+untilPool)); p != nil && at != nil {
			x.known, x.recorded, until = true, float64(p.Capacity())/1000, int64(at.Capacity())*int64(time.Millisecond)
		}
		x.served = x.recorded
		live := false
		s.View.EachMember(cluster.ID{Namespace: s.Namespace, ID: job}, func(t *cluster.Task) {
			if t.Info.V != nil {
				live = !t.Phase().Ended() || live
				x.count(t, until, s.Now)
			}
		})
		if x.second = x.served >= c.threshold; live {
			c.jobs, c.byID[job] = append(c.jobs, x), x
		}
	}
	c.order()
	c.wait()
	for _, w := range c.waits {
		if x := c.byID[w.Job]; x.second {
			x.back = taskset.Earliest(x.back, c.starves(x, w))
		}
	}
	return c
}

// order ranks the jobs: those of the first queue come first, and of each queue the oldest.
func (c *census) order() {
	all := slices.Clone(c.jobs)
	slices.SortFunc(all, func(a, b *service) int {
		return cmp.Or(taskset.BoolInt(a.second)-taskset.BoolInt(b.second), cmp.Compare(a.since, b.since), strings.Compare(a.job, b.job))
	})
	for i, x := range all {
		if x.rank = i + 1; !x.second {
			c.first++
		}
	}
}

// count adds a task of the job.
func (x *service) count(t *cluster.Task, until int64, now time.Time) {
	devices, held := devicesOf(t.Info.V), t.Phase().Held()
	if !t.Phase().Ended() {
		x.devices += devices
		if x.since == 0 || t.Info.V.Submitted < x.since {
			x.since = t.Info.V.Submitted
		}
	}
	if held {
		x.rate += devices
	}
	if taskset.IsWaiting(t) && (!x.waits || t.Info.V.Priority > x.priority || t.Info.V.Priority == x.priority && t.Info.V.Submitted < x.submitted) {
		x.waits, x.priority, x.submitted = true, t.Info.V.Priority, t.Info.V.Submitted
	}
	v := t.Status.V
	if v == nil || v.Bound == 0 {
		return
	}
	began, ended := max(cmp.Or(v.Started, v.Bound), until), min(v.Ended, now.UnixNano()) // its node's clock may be ahead
	x.left = max(x.left, ended)
	if held {
		ended = now.UnixNano()
	}
	if ended > began {
		x.served += devices * time.Duration(ended-began).Seconds()
		x.stale = x.stale || t.Phase() == types.Pending
	}
}

// devicesOf returns how many devices a task requests; for a task without, how many cores.
func devicesOf(t *cluster.TaskValue) float64 {
	var gpus, cores types.Quantity
	requests := t.Requests
	if len(t.Alternatives) > 0 {
		requests = requests.Plus(t.Alternatives[0].Requests)
	}
	for _, x := range requests {
		switch name, _, _ := strings.Cut(x.Name, "@"); name { // members of gangs request their part of a reservation
		case string(types.GPU):
			gpus += x.Amount
		case string(types.CPU):
			cores += x.Amount
		}
	}
	return float64(cmp.Or(gpus, cores)) / 1000
}

// ran returns for how long the job has had all of its devices.
func (x *service) ran() time.Duration {
	if x.devices == 0 {
		return 0
	}
	return seconds(x.served / x.devices)
}

// mostWait bounds times that are computed.
const mostWait = 100 * 365 * 24 * time.Hour

func seconds(s float64) time.Duration {
	return time.Duration(min(s, mostWait.Seconds()) * float64(time.Second))
}

// record returns the pools that say that a job was served for so long until now.
func (c *census) record(x *service, served float64) []controlplane.Resource {
	pool := func(suffix string, q types.Quantity) controlplane.Resource {
		return controlplane.Resource{Name: c.s.Own(x.job + suffix), Capacity: q, Where: controlplane.InCluster(), Options: esl.OfJob(x.job)}
	}
	return []controlplane.Resource{
		pool(servedPool, types.Quantity(min(served*1000, float64(types.MaxQuantity)))),
		pool(untilPool, types.Quantity(c.s.Now.Add(time.Millisecond-1).UnixMilli())), // not before an end that it counts
	}
}

// starves returns when a job of the second queue of which nothing runs comes to the first again.
func (c *census) starves(x *service, w taskset.Wish) time.Time {
	ran, since := x.ran(), w.Since
	if left := time.Unix(0, x.left); left.After(since) {
		since = left
	}
	return since.Add(ran * min(c.starve, mostWait/max(ran, 1)))
}

// starved reports whether a job comes to the first queue again.
func (x *service) starved(now time.Time) bool {
	return x.rate == 0 && !x.back.IsZero() && !now.Before(x.back)
}

// recorded returns the plan that writes what jobs have attained, and moves those to the first queue that
// have waited too long.
func (c *census) recorded() esl.Plan {
	plan := esl.Plan{Reason: "jobs have been served"}
	for _, x := range c.jobs {
		served := x.served
		switch {
		case len(plan.Set)+2 > c.s.MaxChanges():
			return plan
		case x.starved(c.s.Now):
			served, plan.Reason = 0, "jobs have waited for long, and come to the first queue again"
		case !x.stale && (!x.second || x.recorded >= c.threshold):
			continue
		}
		plan.Set = append(plan.Set, c.record(x, served)...)
	}
	return plan
}

// nextChange returns when the next job comes to another queue if nothing changes; zero means never.
func (c *census) nextChange() (at time.Time) {
	for _, x := range c.jobs {
		switch {
		case x.rate > 0 && !x.second:
			at = taskset.Earliest(at, c.s.Now.Add(max(time.Second, seconds((c.threshold-x.served)/x.rate))))
		case x.rate == 0 && !x.back.IsZero():
			at = taskset.Earliest(at, x.back)
		}
	}
	return at
}
