package ahead_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/ahead"
	"github.com/escher-sched/escher/types"
)

// cores are bundles of so many cores.
func cores(of ...int) (bundles []manifest.Bundle) {
	for _, n := range of {
		bundles = append(bundles, manifest.Bundle{Requests: types.NewRequests(map[string]types.Quantity{"cpu": types.Quantity(n) * 1000})})
	}
	return bundles
}

// in declares a reservation of bundles that begins in some time, and lasts half an hour.
func in(t *testing.T, jobs *esl.Client, begins time.Duration, bundles []manifest.Bundle) (at time.Time) {
	t.Helper()
	at = time.Now().Add(begins).UTC()
	p := ahead.ReserveAhead{Bundles: bundles, At: at.Format(time.RFC3339), For: manifest.Duration(30 * time.Minute)}
	if err := jobs.Declare(t.Context(), "train", p, ""); err != nil {
		t.Fatal(err)
	}
	return at
}

// one submits a task of so many cores that runs for a time, and may run as long as limit; 0 means no limit.
func one(t *testing.T, jobs *esl.Client, cores int, run, limit time.Duration) string {
	t.Helper()
	s := hollow.Task(cores*1000, "run", run.String())
	s.Task.MaxRun = limit
	return esltest.Submitted(t, jobs, esl.Copies(1, s)).Tasks[0]
}

// bound returns when a task was bound last, in time from a moment on.
func bound(t *testing.T, jobs *esl.Client, id string, since time.Time) time.Duration {
	t.Helper()
	return time.Unix(0, esltest.Statuses(t, jobs, controlplane.UntilRunning, id)[0].Bound).Sub(since)
}

// granted reports whether the reservation is granted; there reports whether it exists.
func granted(t *testing.T, c *hollow.Cluster) (granted, there bool) {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := v.Reservations[cluster.ID{Namespace: "d", ID: "train"}]
	return r != nil && r.Current() && r.Grant.V.Phase == types.Granted, r != nil && r.Info.V != nil
}

// TestReserveAhead lets only tasks that end in time use what is reserved until the reservation begins, which
// it does at its time. It ends by itself.
func TestReserveAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2)
		begin := time.Now()
		before := one(t, jobs, 2, 20*time.Minute, 30*time.Minute)
		esltest.Statuses(t, jobs, controlplane.UntilRunning, before)
		at := in(t, jobs, time.Hour, cores(4, 4))
		esltest.Pass(5 * time.Second)
		endless, short, long := one(t, jobs, 2, 10*time.Minute, 0), one(t, jobs, 2, 10*time.Minute, 50*time.Minute), one(t, jobs, 2, 10*time.Minute, 2*time.Hour)
		if got := bound(t, jobs, short, begin); got > 10*time.Second {
			t.Errorf("a task that ends in time begins after %s", got)
		}
		draws := hollow.Task(0, "run", "40m")
		draws.Task.Requests = types.NewRequests(map[string]types.Quantity{"cpu@train": 4000})
		drawn := esltest.Submitted(t, jobs, esl.Copies(2, draws)).Tasks
		esltest.Pass(30 * time.Minute)
		for _, id := range []string{endless, long, drawn[0]} {
			t.Logf("why: %s", esltest.TaskWhy(t, c, id))
		}
		late := one(t, jobs, 1, time.Minute, 29*time.Minute)
		if got := bound(t, jobs, late, at); got > -28*time.Minute {
			t.Errorf("a task that ends just in time begins %s after that", got)
		}
		if is, there := granted(t, c); is || !there {
			t.Errorf("before its time it is granted: %v, and exists: %v", is, there)
		}
		for _, id := range drawn {
			if got := bound(t, jobs, id, at); got < 0 || got > 5*time.Second {
				t.Errorf("it begins %s after its time", got)
			}
		}
		esltest.Pass(time.Until(at.Add(29 * time.Minute)))
		if is, _ := granted(t, c); !is {
			t.Error("it is not granted until its end")
		}
		esltest.Pass(2 * time.Minute)
		if _, there := granted(t, c); there {
			t.Error("it exists after its end")
		}
		for _, id := range []string{endless, long} { // the tasks that draw on it keep what they have
			if got := bound(t, jobs, id, at); got < 40*time.Minute || got > 41*time.Minute {
				t.Errorf("a task that does not end in time begins %s after it", got)
			}
		}
		if err := jobs.Withdraw(t.Context(), "train", false); err != nil {
			t.Error(err)
		}
		esltest.Statuses(t, jobs, controlplane.UntilEnded, endless, long)
		esltest.NothingLeft(t, c)
	})
}

// TestReserveAheadLate evicts nothing, and is granted when what runs too long has ended.
func TestReserveAheadLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		runs := one(t, jobs, 3, 70*time.Minute, 0)
		esltest.Statuses(t, jobs, controlplane.UntilRunning, runs)
		at := in(t, jobs, time.Hour, cores(2))
		esltest.Pass(65 * time.Minute)
		if is, there := granted(t, c); is || !there {
			t.Errorf("it is granted: %v, and exists: %v", is, there)
		}
		esltest.Statuses(t, jobs, controlplane.UntilEnded, runs)
		esltest.Pass(5 * time.Second)
		if is, _ := granted(t, c); !is {
			t.Errorf("it is not granted %s after its time, and all has ended", time.Since(at))
		}
	})
}

// TestReserveAheadChooses takes the nodes that have the capacity the soonest, and others when one is lost or
// something else is declared.
func TestReserveAheadChooses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 4)
		on := func() string {
			v, err := c.View(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(v.Reservations[cluster.ID{Namespace: "d", ID: "train"}].Info.V.Collect.On, " ")
		}
		for node, limit := range map[string]time.Duration{"n00": 0, "n01": 2 * time.Hour, "n02": 30 * time.Minute} {
			x := esltest.TaskOn(node, 3000)
			x.Task.MaxRun = limit
			if _, err := jobs.Launch(t.Context(), x); err != nil {
				t.Fatal(err)
			}
		}
		esltest.Pass(time.Second)
		in(t, jobs, time.Hour, cores(4))
		esltest.Pass(2 * time.Second)
		if got := on(); got != "n03" {
			t.Errorf("it collects on %s, not on the free node", got)
		}
		in(t, jobs, time.Hour, cores(4, 4))
		esltest.Pass(5 * time.Second)
		if got := on(); got != "n03 n02" {
			t.Errorf("it collects on %s, not where tasks end in time", got)
		}
		if err := c.Kill(t.Context(), "n03"); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(time.Minute)
		if got := on(); !strings.HasPrefix(got, "n02 n0") {
			t.Errorf("it collects on %s after a node was lost", got)
		}
	})
}

// TestReserveAheadRefused names what is wrong.
func TestReserveAheadRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, jobs := esltest.Ordered(t, 1)
		at, long := "2026-12-01T08:00:00Z", manifest.Duration(time.Hour)
		for want, p := range map[string]ahead.ReserveAhead{
			"bundles: is empty":             {At: at, For: long},
			"at: \"tomorrow\" is not":       {Bundles: cores(1), At: "tomorrow", For: long},
			"at: \"9999-01-01T":             {Bundles: cores(1), At: "9999-01-01T00:00:00Z", For: long},
			"for: 0s is out of range":       {Bundles: cores(1), At: at},
			"bundles[0].requests: is empty": {Bundles: []manifest.Bundle{{}}, At: at, For: long},
			"is held by a reservation":      {Bundles: []manifest.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu@x": 1})}}, At: at, For: long},
		} {
			if err := jobs.Declare(t.Context(), "bad", p, ""); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		if _, err := jobs.Submit(t.Context(), controlplane.Job{Name: "job", Tasks: esl.Copies(1, hollow.Task(1000))}, ahead.ReserveAhead{}); !types.Is(err, types.Invalid) {
			t.Error(err)
		}
	})
}
