package room_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/room"
)

// TestElasticJobsShare: elastic jobs that want more have the same number of tasks outside their
// cores, in any order of submission; an ending job leaves its part to the others, and without
// changes none is evicted.
func TestElasticJobsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2) // of four cores each
		run := func(n, least int) []string {
			ids := esltest.Submitted(t, jobs, esl.Copies(n, hollow.Task(1000)), room.Elastic{Min: least}).Tasks
			esltest.Pass(10 * time.Second)
			return ids
		}
		check := func(what string, want ...[]string) {
			t.Helper()
			total := 0
			for _, ids := range want {
				n := esltest.HowMany(t, c, ids)
				total += n
				t.Logf("%s: %d run", what, n)
			}
			if total != 8 {
				t.Errorf("%s: %d of 8 cores are in use", what, total)
			}
		}
		a := run(8, 2)
		check("alone", a)
		b := run(8, 2)
		check("two", a, b)
		if n, m := esltest.HowMany(t, c, a), esltest.HowMany(t, c, b); n != 4 || m != 4 {
			t.Errorf("of the first %d run, of the second %d", n, m)
		}
		if begun := sum(attempts(t, c, a)); begun != 8 {
			t.Errorf("to make room for 4, tasks of the first have begun %d times in all", begun)
		}
		third := run(8, 1)
		check("three", a, b, third)
		if n, m, k := esltest.HowMany(t, c, a), esltest.HowMany(t, c, b), esltest.HowMany(t, c, third); n != 3 || m != 3 || k != 2 {
			t.Errorf("of the first %d run, of the second %d, of the third %d", n, m, k)
		}
		rests := func(ids []string) {
			t.Helper()
			before := attempts(t, c, ids)
			esltest.Pass(5 * time.Minute)
			if after := attempts(t, c, ids); !slices.Equal(before, after) {
				t.Errorf("tasks come and go for nothing: attempts %v, then %v", before, after)
			}
		}
		rests(slices.Concat(a, b, third))
		stopped(t, jobs, b...)
		esltest.Pass(10 * time.Second)
		check("two are left", a, third)
		if n, k := esltest.HowMany(t, c, a)-2, esltest.HowMany(t, c, third)-1; max(n-k, k-n) > 1 {
			t.Errorf("besides the first ones %d and %d run", n, k)
		}
		rests(slices.Concat(a, third)) // though one of them has one more
		stopped(t, jobs, slices.Concat(a, third)...)
		esltest.NothingLeft(t, c)
	})
}

// TestElasticJobsByPriority: the optional tasks of a job of higher priority come before those of a
// job of lower priority, and not the reverse.
func TestElasticJobsByPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2)
		low := esltest.Submitted(t, jobs, esl.Copies(8, hollow.Task(1000)), room.Elastic{Min: 2}).Tasks
		esltest.Pass(5 * time.Second)
		task := hollow.Task(1000)
		task.Task.Priority = 5
		high := esltest.Submitted(t, jobs, esl.Copies(5, task), room.Elastic{Min: 1}).Tasks
		esltest.Pass(time.Minute)
		if n, m := esltest.HowMany(t, c, low), esltest.HowMany(t, c, high); n != 3 || m != 5 {
			t.Errorf("%d of low and %d of high priority run", n, m)
		}
		stopped(t, jobs, slices.Concat(low, high)...)
		esltest.NothingLeft(t, c)
	})
}

// TestElasticCoresComeFirst: while cores of elastic jobs wait, what becomes free goes to the next core, no
// task is evicted again and again, and the others begin once no core waits.
func TestElasticCoresComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2) // of four cores each
		filler := esltest.Submitted(t, jobs, esl.Copies(6, hollow.Task(1000)))
		esltest.Pass(time.Second)
		var cores, others []string
		for range 24 {
			j := esltest.Submitted(t, jobs, esl.Copies(2, hollow.Task(1000)), room.Elastic{Min: 1})
			cores, others = append(cores, j.Tasks[0]), append(others, j.Tasks[1])
			esltest.Pass(10 * time.Millisecond)
		}
		esltest.Pass(10 * time.Second)
		begun := sum(attempts(t, c, others)) // before there were others
		check := func(what string, core, other int) {
			t.Helper()
			esltest.Pass(10 * time.Second)
			if n, m := esltest.HowMany(t, c, cores), esltest.HowMany(t, c, others); n != core || m != other {
				t.Errorf("%s: %d cores and %d others run, want %d and %d", what, n, m, core, other)
			}
			if n := sum(attempts(t, c, others)) - begun; n != other {
				t.Errorf("%s: others have begun %d times, want %d", what, n, other)
			}
		}
		check("at first", 2, 0)
		for i, id := range filler.Tasks {
			stopped(t, jobs, id)
			check("after a task has ended", 3+i, 0)
		}
		stopped(t, jobs, slices.Concat(cores[8:], others[8:])...)
		stopped(t, jobs, cores[0], others[0], cores[1], others[1])
		check("when no core waits", 6, 2)
	})
}
