package replay

import (
	"context"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/types"
)

// watch records the fate of the tasks.
func (r *replay) watch(ctx context.Context, synced chan struct{}) error {
	return r.client.Watch(ctx, controlplane.WatchTasks{}, func(u controlplane.StatusUpdate) error {
		if u.Synced {
			close(synced)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, c := range u.Changes {
			if i, ok := r.indexOf(c.ID); ok && c.Status != nil {
				r.note(i, c.Status)
			}
		}
		if len(u.Changes) > 0 {
			select {
			case r.news <- struct{}{}:
			default:
			}
		}
		return nil
	})
}

// note records the status of a task. The caller holds r.mu.
func (r *replay) note(i int, s *types.Status) {
	f := &r.fate[i]
	if f.bound == 0 && s.Bound != 0 {
		f.bound = s.Bound
		r.bound++
		r.usage.take(r.plan.Tasks[i].Requests)
	}
	if f.ended != 0 || !s.Phase.Ended() {
		return
	}
	f.ended = s.Ended
	r.finished++
	r.usage.giveBack(r.plan.Tasks[i].Requests)
	j := r.jobOf[i]
	if r.plan.Jobs[j].Gang {
		if r.gangs[j]--; r.gangs[j] == 0 {
			r.over <- j
		}
	}
}

// giveUp gives up the reservations of gangs that have ended.
func (r *replay) giveUp(ctx context.Context) error {
	for {
		select {
		case j := <-r.over:
			if err := r.client.Unreserve(ctx, gangName(j)); err != nil && !types.Is(err, types.NotFound) {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// longest is the longest remaining run time of a running task; 0 if no running task ends.
func (r *replay) longest() (most time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now().UnixNano()
	for i, f := range r.fate {
		if runs := r.plan.Tasks[i].Runs; f.bound != 0 && f.ended == 0 && runs >= 0 {
			most = max(most, time.Duration(f.bound-now)+r.real(runs))
		}
	}
	return most
}

// tell adds the figures of the workload. Delays are from submission to binding: in seconds of the
// workload, and in actual seconds.
func (r *replay) tell(found rig.Figures) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var delays []time.Duration
	for _, f := range r.fate {
		if f.bound != 0 {
			delays = append(delays, time.Duration(max(0, f.bound-f.submitted)))
		}
	}
	slices.Sort(delays)
	for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99} {
		ms := rig.Quantile(delays, q)
		found["delay_"+name+"_ms"], found["delay_"+name+"_trace_s"] = ms, ms/1000*r.cfg.Speed
	}
	found["speed"], found["late_ms"] = r.cfg.Speed, rig.Milliseconds(r.late)
	found["submitted"], found["bound"], found["finished"] = float64(r.submitted), float64(r.bound), float64(r.finished)
	found["gangs"], found["left_out"] = float64(len(r.gangs)), float64(r.plan.Left)
	for name, share := range r.usage.peaks {
		found["peak_"+name] = share
	}
}

// inUse is the utilization of the physical resources.
type inUse struct {
	has, used map[string]float64
	// peaks are the largest shares in use.
	peaks map[string]float64
}

func newInUse(p *workload.Plan) inUse {
	u := inUse{has: make(map[string]float64), used: make(map[string]float64), peaks: make(map[string]float64)}
	for i := range p.Machines {
		for _, x := range p.Node(i).Capacity {
			switch types.ResourceID(x.Name) {
			case types.CPU, types.Memory, types.GPU:
				u.has[x.Name] += float64(x.Amount)
			}
		}
	}
	return u
}

func (u *inUse) take(requests types.Requests) {
	for _, x := range requests {
		if has := u.has[x.Name]; has > 0 {
			u.used[x.Name] += float64(x.Amount)
			u.peaks[x.Name] = max(u.peaks[x.Name], u.used[x.Name]/has)
		}
	}
}

func (u *inUse) giveBack(requests types.Requests) {
	for _, x := range requests {
		u.used[x.Name] -= float64(x.Amount)
	}
}
