package submitter

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// alice submits for herself alone; forOthers is what she may do for others in namespace lab.
func alice(forOthers error) Submitter {
	return Submitter{User: "alice", ForOthers: func(ns string) error {
		if ns != "lab" {
			return errors.New("another namespace")
		}
		return forOthers
	}}
}

// rules are those of a namespace strict in which all draw on share-NAME; fixed is of another policy.
func rules(context.Context) *Checks {
	return &Checks{Payer: payer, Draws: draws, Sets: sets, Declares: declares}
}

func declares(_, id string, _ *types.Policies) error {
	if id == "evades" {
		return types.Errorf(types.Denied, "it evades")
	}
	return nil
}

func draws(ns string, r types.Requests, reserves bool) error {
	if reserves && ns == "jobs" {
		return types.Errorf(types.Denied, "no job")
	}
	if ns == "strict" && !strings.Contains(r[len(r)-1].Name, "share-") {
		return types.Errorf(types.Denied, "no share")
	}
	return nil
}

func sets(ns, resource string) error {
	if resource == "fixed" {
		return types.Errorf(types.Denied, "%s: another sets %s", ns, resource)
	}
	return nil
}

// payer says whose share a resource is: share-NAME is that of NAME.
func payer(resource string) string {
	name, _ := strings.CutPrefix(resource, "share-")
	if name == resource {
		return ""
	}
	return name
}

func requests(names ...string) types.Requests {
	amounts := map[string]types.Quantity{"cpu": 1000}
	for _, n := range names {
		amounts[n] = types.Whole(1)
	}
	return types.NewRequests(amounts)
}

func labeled(user string) []types.Label { return []types.Label{{Name: Label, Value: user}} }

var errDenied = types.Errorf(types.Denied, "no right")

// TestRecorded is the table of what is recorded for whom, and of what is refused.
func TestRecorded(t *testing.T) {
	taskKey, jobKey, reservationKey := controlplane.TaskKey("lab", "t"), controlplane.JobKey("lab", "j"), controlplane.ReservationKey("lab", "r")
	task := func(task types.Task, names ...string) *types.Task {
		task.Name, task.Submitted, task.Requests = "t", 1, requests(names...)
		return &task
	}
	for name, c := range map[string]struct {
		key    string
		m      types.Message
		fresh  bool
		others error
		// want is the user of the task or job; says is a part of the refusal.
		want, says string
	}{
		"a new task":                      {taskKey, task(types.Task{}), true, errDenied, "alice", ""},
		"one that names another user":     {taskKey, task(types.Task{User: "bob"}), true, errDenied, "alice", ""},
		"her own label":                   {taskKey, task(types.Task{Labels: labeled("alice")}), true, errDenied, "alice", ""},
		"the label of another":            {taskKey, task(types.Task{Labels: labeled("bob")}), true, errDenied, "", `labels.user: "bob" is another user`},
		"the label of another, allowed":   {taskKey, task(types.Task{Labels: labeled("bob")}), true, nil, "bob", ""},
		"a task that is there":            {taskKey, task(types.Task{User: "bob"}), false, errDenied, "bob", ""},
		"its label":                       {taskKey, task(types.Task{User: "bob", Labels: labeled("bob")}), false, errDenied, "bob", ""},
		"a label that it had not":         {taskKey, task(types.Task{User: "bob", Labels: labeled("carl")}), false, errDenied, "", `"carl" is another user`},
		"one from before, with its label": {taskKey, task(types.Task{Labels: labeled("bob")}), false, errDenied, "", ""},
		"her share":                       {taskKey, task(types.Task{}, "share-alice"), true, errDenied, "alice", ""},
		"the share of another":            {taskKey, task(types.Task{}, "share-bob"), true, errDenied, "", "requests.share-bob"},
		"that of another, allowed":        {taskKey, task(types.Task{Labels: labeled("bob")}, "share-bob"), true, nil, "bob", ""},
		"an alternative of another":       {taskKey, task(types.Task{Alternatives: []types.Alternative{{Requests: requests("share-bob")}}}), true, errDenied, "", "requests.share-bob"},
		"a new job":                       {jobKey, &types.Job{Name: "j", Submitted: 1}, true, errDenied, "alice", ""},
		"a job of another":                {jobKey, &types.Job{Name: "j", Submitted: 1, Labels: labeled("bob")}, true, errDenied, "", "labels.user"},
		"a job that is there":             {jobKey, &types.Job{Name: "j", Submitted: 1, User: "bob"}, false, errDenied, "bob", ""},
		"a reservation":                   {reservationKey, &types.Reservation{Submitted: 1, Bundles: []types.Bundle{{Requests: requests("share-alice")}}}, true, errDenied, "", ""},
		"one of another":                  {reservationKey, &types.Reservation{Submitted: 1, Bundles: []types.Bundle{{Requests: requests("share-bob")}}}, true, errDenied, "", "requests.share-bob"},
		"one that is there":               {reservationKey, &types.Reservation{Submitted: 1, Bundles: []types.Bundle{{Requests: requests("share-bob")}}}, false, errDenied, "", ""},
		"no share":                        {controlplane.TaskKey("strict", "t"), task(types.Task{}), true, errDenied, "", "no share"},
		"her share in strict":             {controlplane.TaskKey("strict", "t"), task(types.Task{}, "share-alice"), true, errDenied, "alice", ""},
		"no share of one way":             {controlplane.TaskKey("strict", "t"), task(types.Task{Alternatives: []types.Alternative{{Requests: requests("share-alice")}, {Requests: requests("zero")}}}), true, errDenied, "", "no share"},
		"a reservation without":           {controlplane.ReservationKey("strict", "r"), &types.Reservation{Submitted: 1, Bundles: []types.Bundle{{Requests: requests()}}}, true, errDenied, "", "no share"},
		"what another policy sets":        {controlplane.ResourceKey("lab", "fixed", "*"), &types.Resource{Capacity: 1000}, true, errDenied, "", "another sets fixed"},
		"that again":                      {controlplane.ResourceKey("lab", "fixed", "*"), &types.Resource{Capacity: 1000}, false, errDenied, "", "another sets fixed"},
		"a reservation of no job":         {controlplane.ReservationKey("jobs", "r"), &types.Reservation{Submitted: 1, Bundles: []types.Bundle{{Requests: requests()}}}, true, errDenied, "", "no job"},
		"one of a job":                    {controlplane.ReservationKey("jobs", "r"), &types.Reservation{Submitted: 1, Job: "j", Bundles: []types.Bundle{{Requests: requests()}}}, true, errDenied, "", ""},
		"policies that evade":             {controlplane.PoliciesKey("lab", "evades"), &types.Policies{Policies: []types.Policy{{Kind: "x"}}}, true, errDenied, "", "it evades"},
		"others":                          {controlplane.PoliciesKey("lab", "p"), &types.Policies{Policies: []types.Policy{{Kind: "x"}}}, true, errDenied, "", ""},
		"another kind":                    {controlplane.ResourceKey("lab", "x", "*"), &types.Resource{Capacity: 1000}, true, errDenied, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := types.Encode(9, c.m)
			value, err := alice(c.others).Recorded(rules(t.Context()), c.key, before, c.fresh)
			if c.says != "" {
				if !types.Is(err, types.Denied) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				return
			}
			if err != nil || types.Batch(value) != 9 {
				t.Fatal(err)
			}
			if got := userOf(t, c.key, value); got != c.want {
				t.Errorf("the user is %q, want %q", got, c.want)
			}
			if !c.fresh && string(value) != string(before) {
				t.Error("what is there is changed")
			}
		})
	}
}

// userOf returns the user in the value of a task or job.
func userOf(t *testing.T, key string, value []byte) string {
	t.Helper()
	k, _ := controlplane.Parse(key)
	var task types.Task
	var job types.Job
	switch k.Kind {
	case controlplane.Tasks:
		if err := types.Decode(value, &task); err != nil {
			t.Fatal(err)
		}
	case controlplane.Jobs:
		if err := types.Decode(value, &job); err != nil {
			t.Fatal(err)
		}
	}
	return task.User + job.User
}

// TestUnreadable: what no reader takes passes as it is, and so does a key of something else.
func TestUnreadable(t *testing.T) {
	for _, key := range []string{controlplane.TaskKey("lab", "t"), controlplane.JobKey("lab", "j"), controlplane.ReservationKey("lab", "r"), "/elsewhere"} {
		if value, err := alice(errDenied).Recorded(rules(t.Context()), key, []byte("junk"), true); err != nil || string(value) != "junk" {
			t.Errorf("%s: %q, %v", key, value, err)
		}
	}
}

// TestStore: the store records for the submitter of a context, and for no other; it tells what it commits.
func TestStore(t *testing.T) {
	told := 0
	s := Store{Store: memstore.New(), Rules: rules, Committed: func(_ context.Context, txn controlplane.Txn, revision int64) {
		if told++; len(txn.Ops) != 1 || revision == 0 {
			t.Errorf("told of %v at %d", txn, revision)
		}
	}}
	put := func(ctx context.Context, id string, labels []types.Label) error {
		key := controlplane.TaskKey("lab", id)
		m := &types.Task{Name: "t", Submitted: 1, Requests: requests(), Labels: labels}
		_, err := s.Commit(ctx, controlplane.Txn{Compares: []controlplane.Compare{{Key: key}}, Ops: []controlplane.Op{{Key: key, Value: types.Encode(1, m)}}})
		return err
	}
	hers := With(t.Context(), alice(errDenied))
	if err := errors.Join(put(hers, "a", nil), put(t.Context(), "b", labeled("bob"))); err != nil {
		t.Fatal(err)
	}
	if err := put(hers, "c", labeled("bob")); !types.Is(err, types.Denied) {
		t.Errorf("for another: %v", err)
	}
	fixed := controlplane.ResourceKey("lab", "fixed", "*")
	if _, err := s.Commit(hers, controlplane.Txn{Ops: []controlplane.Op{{Key: fixed, Delete: true}}}); !types.Is(err, types.Denied) {
		t.Errorf("what another policy sets: deleted, %v", err)
	}
	for id, want := range map[string]string{"a": "alice", "b": ""} {
		kv, err := controlplane.Get(t.Context(), s, controlplane.TaskKey("lab", id))
		if err != nil || userOf(t, kv.Key, kv.Value) != want {
			t.Errorf("%s: %v, %v", id, kv, err)
		}
	}
	if told != 2 {
		t.Errorf("told of %d commits", told)
	}
}

// TestChanges checks what is put in the place of a task or reservation, if it requests something else.
func TestChanges(t *testing.T) {
	task := func(names ...string) *types.Task { return &types.Task{User: "alice", Requests: requests(names...)} }
	reservation := func(names ...string) *types.Reservation {
		return &types.Reservation{Job: "j", Bundles: []types.Bundle{{Requests: requests(names...)}}}
	}
	for name, c := range map[string]struct {
		is, was types.Message
		denied  bool
	}{
		"the same":                {task("share-bob"), task("share-bob"), false},
		"her share":               {task("share-alice"), task(), false},
		"the share of another":    {task("share-bob"), task("share-alice"), true},
		"none":                    {task(), task("share-alice"), true},
		"one that was unreadable": {task(), new(types.Task), true},
		"the same bundles":        {reservation("share-bob"), reservation("share-bob"), false},
		"other bundles":           {reservation("share-bob"), reservation("share-alice"), true},
		"something else":          {&types.Job{}, &types.Job{}, false},
	} {
		if err := alice(errDenied).Changes(rules(t.Context()), "strict", c.is, c.was); types.Is(err, types.Denied) != c.denied || err != nil && !c.denied {
			t.Errorf("%s: %v", name, err)
		}
	}
}
