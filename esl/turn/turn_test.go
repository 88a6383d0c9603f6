package turn_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/turn"
	"github.com/escher-sched/escher/types"
)

// lasting is a task that fills a node of four cores for a time, and may run as long as limit; 0 means no
// limit.
func lasting(run, limit time.Duration) controlplane.Submission {
	s := hollow.Task(4000, "run", run.String())
	s.Task.MaxRun = limit
	return s
}

// until is lasting with a deadline from now on.
func until(run, limit, deadline time.Duration) controlplane.Submission {
	s := lasting(run, limit)
	s.Task.Deadline = time.Now().Add(deadline).UnixNano()
	return s
}

// TestShortest begins waiting jobs by their lengths; a gang counts as long as the longest of its tasks,
// and a task without a limit as long as Unknown.
func TestShortest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		first := esltest.Submitted(t, jobs, esl.Copies(1, lasting(30*time.Second, 0)))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, first.Tasks...)
		short := turn.Shortest{Unknown: manifest.Duration(10 * time.Minute)}
		var order [][]string
		for _, limit := range []time.Duration{time.Hour, 2 * time.Minute, 0, 8 * time.Hour} {
			order = append(order, esltest.Submitted(t, jobs, esl.Copies(1, lasting(time.Second, limit)), short).Tasks)
		}
		half := esl.Copies(2, lasting(time.Second, time.Minute))
		for i := range half {
			half[i].Task.Requests = types.NewRequests(map[string]types.Quantity{"cpu": 2000})
		}
		half[1].Task.MaxRun = 3 * time.Hour
		order = append(order, esltest.Submitted(t, jobs, half, gang.Gang{}, short).Tasks)
		begun := make(map[int64]int)
		for i, ids := range order {
			begun[esltest.Statuses(t, jobs, controlplane.UntilEnded, ids...)[0].Bound] = i
		}
		var got []int
		for _, at := range slices.Sorted(maps.Keys(begun)) {
			got = append(got, begun[at])
		}
		if want := []int{1, 2, 0, 4, 3}; !slices.Equal(got, want) {
			t.Errorf("they began in the order %v, want %v", got, want)
		}
		esltest.NothingLeft(t, c)
	})
}

// TestShortestByTheMean takes the mean of the ended tasks for a job of unknown length, and says so; of one
// with past runs, their median.
func TestShortestByTheMean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		ended, err := jobs.Submit(t.Context(), controlplane.Job{Name: "other", Tasks: esl.Copies(1, lasting(5*time.Minute, 0))})
		if err != nil {
			t.Fatal(err)
		}
		esltest.Statuses(t, jobs, controlplane.UntilEnded, ended.Tasks...)
		first := esltest.Submitted(t, jobs, esl.Copies(1, lasting(time.Hour, 0)))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, first.Tasks...)
		unknown := esltest.Submitted(t, jobs, esl.Copies(1, lasting(time.Second, 0)), turn.Shortest{})
		esltest.Pass(time.Minute)
		if got := raised(t, c, unknown.Tasks[0], ""); got != 10 { // a week is 2,016 times five minutes
			t.Errorf("raised by %d", got)
		}
		if text := esltest.TaskWhy(t, c, unknown.Tasks[0]); !strings.Contains(text, "shortest: it is 5m long and has waited 1m") {
			t.Errorf("why: %q", text)
		}
		esltest.Statuses(t, jobs, controlplane.UntilEnded, first.Tasks[0], unknown.Tasks[0])
		for range 3 { // Now most runs of this name take a second.
			one := esltest.Submitted(t, jobs, esl.Copies(1, lasting(time.Second, 0)))
			esltest.Statuses(t, jobs, controlplane.UntilEnded, one.Tasks...)
		}
		esltest.Pass(time.Minute)
		first = esltest.Submitted(t, jobs, esl.Copies(1, lasting(time.Hour, 0)))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, first.Tasks...)
		known := esltest.Submitted(t, jobs, esl.Copies(1, lasting(time.Second, 0)), turn.Shortest{})
		esltest.Pass(time.Minute)
		if got := raised(t, c, known.Tasks[0], ""); got != 19 { // 2^19 s are six days
			t.Errorf("with past runs: raised by %d", got)
		}
	})
}

// TestNobodyStarves: a long job begins while shorter ones arrive forever, after those that came less than
// Every later for each time that it is as long.
func TestNobodyStarves(t *testing.T) {
	for every, within := range map[time.Duration]time.Duration{time.Hour: 3 * time.Hour, 0: 12 * time.Hour} {
		t.Run(every.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, jobs := esltest.Ordered(t, 1)
				short := turn.Shortest{Every: manifest.Duration(every)}
				begin := time.Now()
				arrive := func() { esltest.Submitted(t, jobs, esl.Copies(1, lasting(9*time.Minute, 10*time.Minute)), short) }
				arrive()
				esltest.Pass(time.Minute)
				// It is four times as long, and has two levels less.
				long := esltest.Submitted(t, jobs, esl.Copies(1, lasting(30*time.Minute, 40*time.Minute)), short)
				for phase(t, c, long.Tasks[0]) == types.Pending {
					arrive()
					esltest.Pass(8 * time.Minute) // they arrive faster than they run
					if waited := time.Since(begin); waited > within {
						t.Fatalf("it waits for %s", waited)
					}
				}
			})
		})
	}
}

// phase returns the phase of a task.
func phase(t *testing.T, c *hollow.Cluster, id string) types.Phase {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v.Task(esltest.IDOf(id)).Phase()
}

// TestEarliestDeadline begins waiting jobs by their slack, and ends those that cannot meet their deadline
// any more when that is so.
func TestEarliestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		first := esltest.Submitted(t, jobs, esl.Copies(1, lasting(time.Hour, 0)))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, first.Tasks...)
		one := func(s controlplane.Submission) string {
			return esltest.Submitted(t, jobs, esl.Copies(1, s), turn.EarliestDeadline{}).Tasks[0]
		}
		far := one(until(time.Second, time.Minute, 20*time.Hour))
		long := one(until(time.Second, 17*time.Hour, 19*time.Hour)) // two hours of slack
		near := one(until(time.Second, 0, 3*time.Hour))
		missed := one(until(time.Second, 50*time.Minute, 90*time.Minute)) // to begin within 40 minutes
		never := one(until(time.Second, time.Hour, 50*time.Minute))
		s := esltest.Statuses(t, jobs, controlplane.UntilEnded, never)[0]
		if s.Phase == types.Succeeded || !strings.Contains(s.Reason, "its deadline comes too early: it may run for 1h, and 50m is left") {
			t.Errorf("what never meets it: %s, %q", s.Phase, s.Reason)
		}
		esltest.Pass(39 * time.Minute)
		if text := esltest.TaskWhy(t, c, missed); !strings.Contains(text, "earliest-deadline: it must begin within 1m") {
			t.Errorf("why: %q", text)
		}
		begin := time.Now()
		if s := esltest.Statuses(t, jobs, controlplane.UntilEnded, missed)[0]; s.Phase == types.Succeeded || time.Since(begin) > 2*time.Minute {
			t.Errorf("what missed it: %s, %q after %s", s.Phase, s.Reason, time.Since(begin))
		}
		var bound []int64
		for _, id := range []string{long, near, far} {
			s := esltest.Statuses(t, jobs, controlplane.UntilEnded, id)[0]
			bound = append(bound, s.Bound)
			if s.Phase != types.Succeeded {
				t.Errorf("%s: %s", id, s.Reason)
			}
		}
		if !slices.IsSorted(bound) {
			t.Errorf("they began at %v", bound)
		}
		esltest.NothingLeft(t, c)
	})
}

// TestEarliestDeadlineOfAnotherAttempt leaves a task to its deadline that has begun once.
func TestEarliestDeadlineOfAnotherAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		one := until(10*time.Minute, 30*time.Minute, 35*time.Minute)
		one.Task.Retries = 3
		id := esltest.Submitted(t, jobs, esl.Copies(1, one), turn.EarliestDeadline{}).Tasks[0]
		esltest.Statuses(t, jobs, controlplane.UntilRunning, id)
		esltest.Pass(6 * time.Minute)
		if err := c.Finish(t.Context(), "d", id, 1); err != nil {
			t.Fatal(err)
		}
		if s := esltest.Statuses(t, jobs, controlplane.UntilEnded, id)[0]; s.Phase != types.Succeeded {
			t.Errorf("%s: %s", s.Phase, s.Reason)
		}
	})
}

// TestEarliestDeadlineOfAGang ends a gang as a whole when one of its tasks cannot meet its deadline.
func TestEarliestDeadlineOfAGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2)
		first := esltest.Submitted(t, jobs, esl.Copies(1, lasting(time.Hour, 0)))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, first.Tasks...)
		both := []controlplane.Submission{until(time.Second, 0, 5*time.Hour), until(time.Second, 30*time.Minute, 50*time.Minute)}
		job := esltest.Submitted(t, jobs, both, gang.Gang{}, turn.EarliestDeadline{})
		esltest.Pass(10 * time.Minute)
		if got := raised(t, c, job.Tasks[0], job.Job+".gang"); got != 7 { // of a day, ten minutes are left
			t.Errorf("raised by %d", got)
		}
		if text := esltest.TaskWhy(t, c, job.Tasks[0]); !strings.Contains(text, "it must begin within 10m, and comes as if its priority were 7 instead of 0") {
			t.Errorf("why: %q", text)
		}
		for _, s := range esltest.Statuses(t, jobs, controlplane.UntilEnded, job.Tasks...) {
			if s.Phase == types.Succeeded {
				t.Errorf("%+v", s)
			}
		}
		esltest.Statuses(t, jobs, controlplane.UntilEnded, first.Tasks...)
		esltest.NothingLeft(t, c)
	})
}

// TestRefused names what is wrong.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, jobs := esltest.Ordered(t, 1)
		for want, policies := range map[string][]esl.Policy{
			"tasks[0].deadline: is missing":           {turn.EarliestDeadline{}},
			"every: 1ms":                              {turn.Shortest{Every: manifest.Duration(time.Millisecond)}},
			"unknown: -1s":                            {turn.Shortest{Unknown: manifest.Duration(-time.Second)}},
			"aging and shortest exclude each other":   {turn.Aging{}, turn.Shortest{}},
			"shortest is there twice, and each would": {turn.Shortest{}, turn.Shortest{Every: manifest.Duration(time.Hour)}},
		} {
			_, err := jobs.Submit(t.Context(), controlplane.Job{Name: "job", Tasks: esl.Copies(1, hollow.Task(500))}, policies...)
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
	})
}

// TestShortestBehindAGate leaves a job as it is that comes after another one.
func TestShortestBehindAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		before := esltest.Submitted(t, jobs, esl.Copies(1, hollow.Task(500, "run", "30m")))
		job := esltest.Submitted(t, jobs, esl.Copies(1, lasting(time.Second, time.Minute)), admission.After{Jobs: []string{before.Job}}, turn.Shortest{})
		esltest.Pass(time.Minute)
		if got := raised(t, c, job.Tasks[0], ""); got != 0 {
			t.Errorf("raised by %d", got)
		}
	})
}
