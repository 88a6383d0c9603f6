package room

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// The service that jobs have attained: devices times time, over all attempts of their tasks.
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
}

// census is the jobs of the policy that have tasks left, by id.
type census struct {
	s *esl.State
	// threshold is the service of the second queue, in seconds of device time.
	threshold float64
	jobs      []*service
	byID      map[string]*service
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
func censusOf(s *esl.State, threshold float64) *census {
	c := &census{s: s, threshold: threshold, byID: make(map[string]*service)}
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
		if x.second = x.served >= threshold; live {
			c.jobs, c.byID[job] = append(c.jobs, x), x
		}
	}
	c.order()
	c.wait()
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

// mostConsidered is for how many jobs of the first queue evictions are considered at a time.
const mostConsidered = 256

// wait lists what waits of the second queue, of what may have been there, and of those jobs of the first
// queue that come first, or for which room is being made.
func (c *census) wait() {
	var first []*service
	of := make(map[string]bool)
	for _, x := range c.jobs {
		switch {
		case !x.waits:
		case x.second || x.known:
			of[x.job] = true
		default:
			first = append(first, x)
		}
	}
	slices.SortFunc(first, func(a, b *service) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.submitted, b.submitted), strings.Compare(a.job, b.job))
	})
	for _, x := range first[:min(len(first), mostConsidered)] {
		of[x.job] = true
	}
	for _, r := range c.rooms {
		if c.byID[r.Info.V.Job] != nil {
			of[r.Info.V.Job] = true
		}
	}
	c.waits = taskset.WaitingReservationsOf(c.s, func(job string) bool { return of[job] })
	for _, job := range taskset.SortedKeys(of) {
		one := *c.s
		one.Job = job
		c.waits = append(c.waits, taskset.WaitingTasks(&one)...)
	}
}

// inOrder sorts what waits by priority, and by the order of the jobs, and notes which jobs have waited for
// so long; again is when the next one will have.
func (c *census) inOrder(older time.Duration) (again time.Time) {
	slices.SortStableFunc(c.waits, func(a, b taskset.Wish) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(c.byID[a.Job].rank, c.byID[b.Job].rank))
	})
	for _, w := range c.waits {
		if due := w.Since.Add(older); c.s.Now.Before(due) {
			again = taskset.Earliest(again, due)
		} else {
			c.byID[w.Job].long = true
		}
	}
	return again
}

// victims reports whether a task holds something.
func (c *census) victims() bool {
	return slices.ContainsFunc(c.jobs, func(x *service) bool { return x.rate > 0 })
}

// making returns the engine that evicts tasks of jobs that come after: of the second queue for the first
// and, for a job that has waited for long, younger ones of its own queue. It spares those that were evicted
// before and have run for less than spare since.
func (c *census) making(spare time.Duration) *making {
	tries := esl.Remember(c.s, func() map[string]*triedInVain { return make(map[string]*triedInVain) })
	maps.DeleteFunc(tries, func(job string, _ *triedInVain) bool { return c.byID[job] == nil })
	all := make(map[string]bool, len(c.jobs))
	for _, x := range c.jobs {
		all[x.job] = true
	}
	return &making{s: c.s, kind: LeastAttained{}.Kind(), of: " that come after", within: 10 * time.Minute,
		victims: func(_ int, patient bool) *clearing {
			rank := func(job string) int {
				switch x := c.byID[job]; {
				case x == nil || !x.second && !x.long:
					return c.first
				case !x.long:
					return len(c.jobs)
				default:
					return x.rank
				}
			}
			yields := clearingOf(c.s, func(u *victim, who asker) bool {
				if len(u.tasks) == 0 {
					return u.ns == who.ns && (u.priority < who.priority || u.job == who.job)
				}
				return u.ns == who.ns && u.priority <= who.priority && u.rank > rank(who.job)
			})
			yields.rank, yields.order = rank, func(job string) int { return c.byID[job].rank }
			yields.below, yields.spare, yields.patient, yields.only = math.MaxInt, spare, patient, all
			yields.fill()
			return yields
		},
		tries: func(job string) *triedInVain {
			if tries[job] == nil {
				tries[job] = new(triedInVain)
			}
			return tries[job]
		},
	}
}

// without returns the units for which no reservation makes room.
func without(s *esl.State, units []taskset.Wish, rooms []*cluster.Reservation) []taskset.Wish {
	made := make(map[string]int)
	for _, r := range rooms {
		made[roomText(s, r)]++
	}
	return slices.DeleteFunc(units, func(w taskset.Wish) bool {
		for _, asks := range wishTexts(s, w) {
			if made[asks] > 0 {
				made[asks]--
				return true
			}
		}
		return false
	})
}
