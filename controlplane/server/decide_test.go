package server

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

const (
	hour   = int64(time.Hour)
	minute = int64(time.Minute)
)

// now is the time of all snapshots of tests.
func now() time.Time { return time.Unix(1_000_000, 0) }

// ago returns a time stamp.
func ago(d int64) int64 { return now().UnixNano() - d }

// put is a key of a state; its revision is its position in the list, from 1.
type put struct {
	key string
	m   types.Message
}

func aTask(id string, t types.Task) put    { return put{controlplane.TaskKey("ns", id), &t} }
func status(id string, s types.Status) put { return put{controlplane.StatusKey("ns", id), &s} }
func ended(id string, age int64) put {
	return status(id, types.Status{Phase: types.Succeeded, Ended: ago(age)})
}
func aSession(id string) put { return put{controlplane.SessionKey("ns", id), &types.Session{}} }
func aJob(id string) put     { return put{controlplane.JobKey("ns", id), &types.Job{}} }

// jobOf is a job launched with that many tasks.
func jobOf(tasks int, id string) put {
	return put{controlplane.JobKey("ns", id), &types.Job{Tasks: tasks}}
}

func policies(id string, p types.Policies) put { return put{controlplane.PoliciesKey("ns", id), &p} }
func alive(node string) put                    { return put{controlplane.AliveKey(node), &types.Alive{}} }
func reservation(id string, r types.Reservation) put {
	return put{controlplane.ReservationKey("ns", id), &r}
}
func resource(where string, r types.Resource) put {
	return put{controlplane.ResourceKey("ns", "r", where), &r}
}
func provided(node string, p types.Provided) put {
	return put{controlplane.ProvidedKey("ns", "p", node), &p}
}
func closed() put { return put{controlplane.AdmissionKey(), &types.Admission{Reason: "full"}} }
func slowed() put {
	return put{controlplane.AdmissionKey(), &types.Admission{Reason: "3 tasks wait", Busy: true}}
}

// indexOf returns the index of a state.
func indexOf(state []put) *index {
	x := newIndex()
	for i, p := range state {
		x.learn(int64(i+1), p)
	}
	return x
}

// learn applies a key put at a revision.
func (x *index) learn(rev int64, p put) {
	x.apply(controlplane.Event{KV: controlplane.KV{Key: p.key, Value: types.Encode(1, p.m), CreateRevision: rev, ModRevision: rev}}, now())
}

// at returns a pass over a complete index at a time.
func (x *index) at(now time.Time, p Policy) *pass {
	return &pass{index: x, policy: p, now: now, revision: 1000, tasks: 1000, limit: maxSteps, recorded: math.MaxInt64}
}

// told returns the effects of steps, one line each: the reason, the key put with its text or the
// keys deleted, and the compares.
func told(steps []step) string {
	var lines []string
	for _, s := range steps {
		var b strings.Builder
		fmt.Fprintf(&b, "%s:", s.why)
		for _, key := range s.deletes {
			fmt.Fprintf(&b, " -%s", short(key))
		}
		switch m := s.put.(type) {
		case *types.Task:
			fmt.Fprintf(&b, " stop %s (%s)", short(s.key), m.Stop.Reason)
		case *types.Admission:
			fmt.Fprintf(&b, " put %s (%s%s)", short(s.key), m.Reason, map[bool]string{true: "; slowed"}[m.Busy])
		}
		b.WriteString(" if")
		compares := make([]string, 0, len(s.compares))
		for _, x := range s.compares {
			is := "="
			if x.Target == controlplane.CreateRevision {
				is = "@"
			}
			compares = append(compares, fmt.Sprintf(" %s%s%d", short(x.Key), is, x.Revision))
		}
		slices.Sort(compares)
		b.WriteString(strings.Join(compares, ""))
		lines = append(lines, b.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func short(key string) string { return strings.TrimPrefix(key, controlplane.Root) }

// decideTest is a state with the decisions it leads to.
type decideTest struct {
	name  string
	state []put
	usage controlplane.Usage
	// repeat sets pass.repeat.
	repeat bool
	want   string
}

// retentionTests are about the time that finished objects are kept.
func retentionTests() []decideTest {
	return []decideTest{
		{name: "nothing is nothing to do"},
		{
			name:  "a finished task is kept for an hour",
			state: []put{aTask("a", types.Task{}), ended("a", hour), aTask("b", types.Task{}), ended("b", hour-1)},
			want:  "finished: -tasks/ns/a -status/ns/a if status/ns/a=2",
		},
		{
			name:  "an unfinished one for ever",
			state: []put{aTask("a", types.Task{}), status("a", types.Status{Phase: types.Running, Ended: ago(9 * hour)}), aTask("b", types.Task{})},
		},
		{
			name:  "of too many the oldest goes",
			state: []put{aTask("a", types.Task{}), ended("a", 20*minute), aTask("b", types.Task{}), ended("b", 10*minute), aTask("c", types.Task{}), ended("c", 6*minute)},
			want:  "finished: -tasks/ns/a -status/ns/a if status/ns/a=2",
		},
		{
			name:  "but not before it could be seen",
			state: []put{aTask("a", types.Task{}), ended("a", 5*minute-1), aTask("b", types.Task{}), ended("b", 2*minute), aTask("c", types.Task{}), ended("c", minute)},
		},
		{
			name:  "a status without its task",
			state: []put{ended("a", hour)},
			want:  "status without a task: -status/ns/a if status/ns/a=1 tasks/ns/a=0",
		},
		{
			name:  "a job goes when its tasks are gone",
			state: []put{aTask("a", types.Task{Job: "j"}), aJob("j"), aJob("k")},
			want:  "its tasks are gone: -jobs/ns/k if jobs/ns/k=3",
		},
	}
}

// ownerTests are about objects without an owner.
func ownerTests() []decideTest {
	return []decideTest{
		{
			name:  "tasks of an ended session are stopped once",
			state: []put{aTask("a", types.Task{Session: "s"}), aTask("b", types.Task{Session: "s", Stop: &types.Stop{}}), aTask("c", types.Task{Session: "t"}), aSession("t"), aTask("d", types.Task{Session: "s"}), ended("d", 0)},
			want:  "its session ended: stop tasks/ns/a (session s ended) if sessions/ns/s=0 tasks/ns/a=1",
		},
		{
			name:  "reservations of an ended session",
			state: []put{reservation("a", types.Reservation{Session: "s"}), reservation("b", types.Reservation{}), aSession("t"), reservation("c", types.Reservation{Session: "t"})},
			want:  "its session ended: -reservations/ns/a if reservations/ns/a=1 sessions/ns/s=0",
		},
		{
			name: "a resource of a task goes when it has ended",
			state: []put{
				resource("*", types.Resource{Lifetime: types.OfTask, Owner: "a"}), resource("+", types.Resource{Lifetime: types.OfTask, Owner: "b"}),
				aTask("a", types.Task{}), ended("a", 0), aTask("b", types.Task{}), status("b", types.Status{Phase: types.Pending, Attempt: 1}),
			},
			want: "its owner is gone: -resources/ns/r/* if resources/ns/r/*=1 status/ns/a=4",
		},
		{
			name:  "or is not there",
			state: []put{resource("+", types.Resource{Lifetime: types.OfTask, Owner: "a"})},
			want:  "its owner is gone: -resources/ns/r/+ if resources/ns/r/+=1 tasks/ns/a=0",
		},
		{
			name: "resources of sessions",
			state: []put{
				resource("*", types.Resource{Lifetime: types.OfSession, Owner: "s"}), resource("+", types.Resource{Lifetime: types.OfSession, Owner: "t"}), aSession("t"),
			},
			want: "its owner is gone: -resources/ns/r/* if resources/ns/r/*=1 sessions/ns/s=0",
		},
		{
			name: "resources of reservations",
			state: []put{
				resource("*", types.Resource{Lifetime: types.OfReservation, Owner: "a"}), resource("+", types.Resource{Lifetime: types.OfReservation, Owner: "b"}),
				reservation("b", types.Reservation{}), {controlplane.GrantKey("ns", "a"), &types.Grant{Phase: types.Releasing}},
			},
			want: "its owner is gone: -resources/ns/r/* if reservations/ns/a=0 resources/ns/r/*=1",
		},
		{
			name:  "a resource without owner stays",
			state: []put{resource("*", types.Resource{})},
		},
		{
			name: "what is of another session of its node",
			state: []put{
				alive("n1"), resource("n1", types.Resource{NodeSession: 1}), provided("n1", types.Provided{NodeSession: 1}),
				alive("n2"), resource("n2", types.Resource{NodeSession: 1}), provided("n2", types.Provided{NodeSession: 3}),
				resource("n3", types.Resource{NodeSession: 3}),
			},
			want: "the session of its node is over: -provided/ns/p/n2 if alive/n2@4 provided/ns/p/n2=6\n" +
				"the session of its node is over: -resources/ns/r/n2 if alive/n2@4 resources/ns/r/n2=5\n" +
				"the session of its node is over: -resources/ns/r/n3 if alive/n3@0 resources/ns/r/n3=7",
		},
		{
			name:  "a resource of a node and a session",
			state: []put{alive("n1"), resource("n1", types.Resource{NodeSession: 1, Lifetime: types.OfSession, Owner: "s"})},
			want:  "its owner is gone: -resources/ns/r/n1 if resources/ns/r/n1=2 sessions/ns/s=0",
		},
	}
}

// admissionTests are about a database that fills up.
func admissionTests() []decideTest {
	return []decideTest{
		{
			name: "admission stays open below 70 %", usage: controlplane.Usage{InUse: 699, Quota: 1000},
		},
		{
			name: "and closes then", usage: controlplane.Usage{InUse: 700 << 20, Quota: 1000 << 20},
			want: "the database is nearly full: put system/admission (etcd's database holds 700 MiB, 70 % of its quota of 1000 MiB) if system/admission=0",
		},
		{
			name: "once", usage: controlplane.Usage{InUse: 700, Quota: 1000}, state: []put{closed()},
		},
		{
			name: "but not while etcd refuses everything", usage: controlplane.Usage{InUse: 700, Quota: 1000, Alarm: true},
		},
		{
			name: "and says so again now and then", usage: controlplane.Usage{InUse: 800 << 20, Quota: 1000 << 20}, state: []put{closed()}, repeat: true,
			want: "the database is nearly full: put system/admission (etcd's database holds 800 MiB, 80 % of its quota of 1000 MiB) if system/admission=1",
		},
		{
			name: "too many tasks wait", state: []put{aTask("a", types.Task{}), aTask("b", types.Task{}), status("b", types.Status{Phase: types.Pending}), aTask("c", types.Task{}), aTask("d", types.Task{})},
			want: "too many tasks wait: put system/admission (4 tasks wait, and at most 4 may; slowed) if system/admission=0",
		},
		{
			name: "or run", state: []put{aTask("a", types.Task{}), aTask("b", types.Task{}), status("b", types.Status{Phase: types.Bound}), aTask("c", types.Task{}), status("c", types.Status{Phase: types.Running})},
		},
		{
			name: "which is said once", state: []put{slowed(), aTask("a", types.Task{}), aTask("b", types.Task{}), aTask("c", types.Task{}), aTask("d", types.Task{})}, repeat: true,
		},
		{
			name: "until there are fewer", state: []put{slowed(), aTask("a", types.Task{}), aTask("b", types.Task{}), aTask("c", types.Task{})},
			want: "there is room again: -system/admission if system/admission=1",
		},
		{
			name: "a full database counts more", state: []put{slowed(), aTask("a", types.Task{}), aTask("b", types.Task{}), aTask("c", types.Task{}), aTask("d", types.Task{})}, usage: controlplane.Usage{InUse: 700 << 20, Quota: 1000 << 20},
			want: "the database is nearly full: put system/admission (etcd's database holds 700 MiB, 70 % of its quota of 1000 MiB) if system/admission=1",
		},
		{
			name: "and then the tasks do", state: []put{closed(), aTask("a", types.Task{}), aTask("b", types.Task{}), aTask("c", types.Task{}), aTask("d", types.Task{})}, usage: controlplane.Usage{InUse: 600, Quota: 1000},
			want: "too many tasks wait: put system/admission (4 tasks wait, and at most 4 may; slowed) if system/admission=1",
		},
		{
			name: "until there is room", usage: controlplane.Usage{InUse: 649, Quota: 1000}, state: []put{closed()},
			want: "there is room again: -system/admission if system/admission=1",
		},
		{
			name: "which must be known", state: []put{closed()},
		},
		{
			name: "at 85 % the finished go at once", usage: controlplane.Usage{InUse: 850, Quota: 1000},
			state: []put{closed(), aTask("a", types.Task{}), ended("a", 0)},
			want:  "finished: -tasks/ns/a -status/ns/a if status/ns/a=3",
		},
	}
}

func TestDecide(t *testing.T) {
	p := DefaultPolicy()
	p.KeepNumber, p.MaxPending = 2, 4
	for _, test := range slices.Concat(retentionTests(), heldTests(), ownerTests(), jobTests(), admissionTests()) {
		t.Run(test.name, func(t *testing.T) {
			l := indexOf(test.state).at(now(), p)
			l.usage, l.repeat = test.usage, test.repeat
			steps, _ := l.decide()
			if got := told(steps); got != test.want {
				t.Errorf("decided\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestDecideWaits checks objects without a time of their own: they are collected some time after
// they were first seen.
func TestDecideWaits(t *testing.T) {
	state := []put{
		aTask("a", types.Task{Job: "j"}),
		aTask("b", types.Task{Spec: "used"}),
		aTask("c", types.Task{}),
		status("c", types.Status{Phase: types.Cancelled}),
		aTask("d", types.Task{Job: "k"}),
	}
	p := DefaultPolicy()
	x := indexOf(state)
	for i, spec := range []string{"used", "unused", "young"} {
		x.see(specName{"ns", spec}, []int64{1, 2, 5000}[i], now())
	}
	for _, at := range []struct {
		after time.Duration
		want  string
	}{
		{0, ""},
		{10*time.Minute - 1, ""},
		{10 * time.Minute, "its job never came: -tasks/ns/a if jobs/ns/j=0 status/ns/a=0 tasks/ns/a=1\n" +
			"its job never came: -tasks/ns/d if jobs/ns/k=0 status/ns/d=0 tasks/ns/d=5\n" +
			"no task refers to it: -specs/ns/unused if specs/ns/unused=2"},
		{10*time.Minute + 1, ""},
	} {
		steps, _ := x.at(now().Add(at.after), p).decide()
		if got := told(steps); got != at.want {
			t.Errorf("after %s decided\n%s\nwant\n%s", at.after, got, at.want)
		}
	}
	// An undone step is done later, unless the job has come meanwhile.
	x.learn(10, aJob("j"))
	x.find("ns", "a").requeue(x)
	x.find("ns", "d").requeue(x)
	steps, _ := x.at(now().Add(time.Hour), p).decide()
	if got, want := told(steps), "finished: -tasks/ns/c -status/ns/c if status/ns/c=4\n"+
		"its job never came: -tasks/ns/d if jobs/ns/k=0 status/ns/d=0 tasks/ns/d=5"; got != want {
		t.Errorf("after an hour decided\n%s\nwant\n%s", got, want)
	}
}

// TestUnusedSpecsOfAFullDatabase checks that a full database does not wait for the grace of specs.
func TestUnusedSpecsOfAFullDatabase(t *testing.T) {
	x := indexOf([]put{aTask("a", types.Task{Spec: "used"})})
	x.see(specName{"ns", "used"}, 1, now())
	x.see(specName{"ns", "unused"}, 1, now())
	l := x.at(now(), DefaultPolicy())
	l.usage = controlplane.Usage{InUse: 70, Quota: 100}
	if steps, _ := l.decide(); len(steps) != 1 || steps[0].why != full {
		t.Fatalf("decided\n%s", told(steps))
	}
	x.learn(5, closed())
	l = x.at(now(), DefaultPolicy())
	steps, _ := l.decide()
	if got, want := told(steps), "no task refers to it: -specs/ns/unused if specs/ns/unused=1"; got != want {
		t.Errorf("decided\n%s\nwant\n%s", got, want)
	}
}

// TestJobsWaitForTheirTasks checks a job known before its tasks.
func TestJobsWaitForTheirTasks(t *testing.T) {
	l := indexOf([]put{aJob("j")}).at(now(), DefaultPolicy())
	l.revision = 0
	if steps, _ := l.decide(); len(steps) != 0 {
		t.Errorf("decided %s", told(steps))
	}
}

func TestPolicyIsValidated(t *testing.T) {
	if err := DefaultPolicy().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	err := Policy{KeepNumber: -1, KeepAge: -1}.Validate()
	for _, field := range []string{"interval:", "gap:", "keep age:", "keep number:", "orphan grace:", "spec grace:", "purge at:"} {
		if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("Validate = %v, want Invalid naming %q", err, field)
		}
	}
}
