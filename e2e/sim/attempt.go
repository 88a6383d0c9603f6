package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// attempt is one attempt managed by an agent, and its process.
type attempt struct {
	key    controlplane.Key
	create int64
	// binding is nil once it is deleted.
	binding *types.Binding
	spec    *types.Spec
	seen    nodeagent.Seen
	// alive reports whether its process runs.
	alive bool
	exit  nodeagent.Exit
	// image is the image by digest that it runs, restarts the number of its restarts.
	image    string
	restarts int
}

func (x *attempt) task() string { return x.key.Namespace + "/" + x.key.ID }

// desired is the desired state of an attempt, as the agent knows it.
func (a *agent) desired(x *attempt) nodeagent.Desired {
	d := nodeagent.Desired{Bound: x.binding != nil, Revision: x.create, Spec: x.spec}
	if x.binding != nil {
		keep := x.binding.OnDisconnect == types.Keep
		d.Void = x.binding.Session != a.session && !keep
		d.Stop, d.StopLost = x.binding.Stop, x.binding.OnDisconnect == types.StopLost
		if a.state == fencing && !keep {
			d.SignalBy, d.KillBy = a.w.now.Add(-1), a.w.now
		}
	}
	return d
}

// advance takes the next step of one attempt, as nodeagent.Next says, and reports whether there was
// one. Without rng nothing ends by itself and every message arrives.
func (a *agent) advance(x *attempt, rng *rand.Rand) bool {
	if a.state == down || a.state == gone {
		return false
	}
	if x.alive && rng != nil && rng.IntN(3) == 0 {
		a.ends(x, max(0, rng.IntN(6)-4))
	}
	if x.alive && rng != nil && rng.IntN(12) == 0 && x.seen.Reported.Phase == types.ReportRunning && x.seen.Signalled.IsZero() {
		x.restarts++
		return a.tells(x, &types.Report{Phase: types.ReportRunning, Started: max(0, x.seen.Started.UnixNano()), Reason: "exit code 1: restarts"})
	}
	act := nodeagent.Next(a.desired(x), x.seen, a.w.now)
	switch act.Do {
	case nodeagent.Look:
		a.look(x)
	case nodeagent.Fetch:
		if a.state != up {
			return false
		}
		x.spec = &types.Spec{Grace: time.Nanosecond}
	case nodeagent.Start:
		if rng != nil && rng.IntN(8) == 0 {
			return a.tells(x, &types.Report{Phase: types.ReportStarting, Reason: fmt.Sprintf("no answer from the registry (%d)", rng.IntN(3))})
		}
		a.starts(x)
	case nodeagent.Adopt:
		x.seen.Watched = true
	case nodeagent.Signal:
		x.seen.Cause, x.seen.Signalled = act.Cause, a.w.now
		if rng == nil || rng.IntN(2) == 0 {
			a.ends(x, 143)
		}
	case nodeagent.Kill:
		a.ends(x, 137)
	case nodeagent.Send:
		return a.state == up && a.report(x, act.Report, rng)
	case nodeagent.Remove:
		a.dead(x)
		x.seen.Container = nodeagent.Absent
	case nodeagent.Forget:
		delete(a.attempts, x.key.String())
		return false
	case nodeagent.Wait:
		if x.alive && !x.seen.Signalled.IsZero() && rng == nil {
			a.ends(x, 143)
			return true
		}
		return false
	}
	return true
}

// starts starts the process of an attempt: no other process of its task may run.
func (a *agent) starts(x *attempt) {
	if at := a.w.running[x.task()]; at != "" {
		a.w.fail("%s: %s is started, and runs on %s", a.name, x.task(), at)
	}
	x.alive = true
	if x.image = cmp.Or(x.image, x.binding.Image); x.image == "" {
		// A tag that moves.
		x.image = fmt.Sprintf("image@sha256:%d", a.w.now.Unix()/2)
	}
	x.seen.Container, x.seen.Ran, x.seen.Since, x.seen.Started = nodeagent.Running, true, a.w.now, a.w.now
	a.w.running[x.task()] = a.name
	a.w.say("%s starts %s#%d", a.name, x.task(), x.key.Attempt)
}

// ends ends the process of an attempt.
func (a *agent) ends(x *attempt, code int) {
	a.dead(x)
	x.exit = nodeagent.Exit{Code: code, At: a.w.now}
	x.seen.Container, x.seen.Exit = nodeagent.Exited, x.exit
	a.w.say("%s: %s#%d ended with %d (%s)", a.name, x.task(), x.key.Attempt, code, x.seen.Cause)
}

func (a *agent) dead(x *attempt) {
	if x.alive {
		delete(a.w.running, x.task())
	}
	x.alive = false
}

// look reads the state of the runtime.
func (a *agent) look(x *attempt) {
	switch {
	case x.alive:
		x.seen.Container, x.seen.Ran = nodeagent.Running, true
	case !x.exit.At.IsZero():
		x.seen.Container, x.seen.Ran, x.seen.Exit = nodeagent.Exited, true, x.exit
	default:
		x.seen.Container = nodeagent.Absent
	}
}

// report stores a report if its binding is still the same.
func (a *agent) report(x *attempt, r *types.Report, rng *rand.Rand) bool {
	key := reportKey(x.key)
	var there types.Report
	mod := a.w.read(key, &there)
	if mod != 0 && there.Binding == x.create && (there.Phase == r.Phase || there.Phase == types.ReportExited) {
		// An earlier copy arrived, or one sent before the machine crashed: the stored report holds.
		x.seen.Reported = there
		return true
	}
	c := a.about(x, r, mod, there.Binding)
	fate := 0
	if rng != nil {
		fate = rng.IntN(12)
	}
	switch fate {
	case 1:
		a.w.late = append(a.w.late, c.Txn())
		return true
	case 2:
		return true // lost
	}
	ok := a.w.try(c)
	a.w.say("%s reports %s#%d %s: committed=%t", a.name, x.task(), x.key.Attempt, r.Phase, ok)
	switch {
	case ok && fate != 3:
		x.seen.Reported = *r
	case !ok:
		x.seen.Refused = a.w.get(x.key.String()).CreateRevision != x.create
	}
	return true
}

// about returns the change that stores a report over one of revision mod about a binding. If the
// binding is the same, it exists as long as that report does.
func (a *agent) about(x *attempt, r *types.Report, mod, binding int64) *controlplane.Change {
	r.Binding, r.Image, r.Restarts = x.create, x.image, x.restarts
	c := a.w.newChange()
	if mod == 0 || binding != x.create {
		c.IfCreated(x.key.String(), x.create)
	}
	c.IfUnchanged(reportKey(x.key), mod)
	c.Put(reportKey(x.key), r)
	return c
}

// tells stores a report of an attempt that has not ended: the trouble with its start, or a restart.
func (a *agent) tells(x *attempt, r *types.Report) bool {
	var there types.Report
	mod := a.w.read(reportKey(x.key), &there)
	if a.state != up || there.Binding == x.create && there.Phase == types.ReportExited {
		return false
	}
	ok := a.w.try(a.about(x, r, mod, there.Binding))
	a.w.say("%s tells of %s#%d: %s, committed=%t", a.name, x.task(), x.key.Attempt, r.Reason, ok)
	return true
}

// reportKey is the key of the report about a binding.
func reportKey(binding controlplane.Key) string {
	binding.Kind = controlplane.Reports
	return binding.String()
}
