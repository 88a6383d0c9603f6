package cmdutil

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// selection returns the flag given with some values.
func selection(t *testing.T, values ...string) *Selection {
	t.Helper()
	var s Selection
	cmd := &cobra.Command{Use: "x"}
	s.AddSelector(cmd, TaskLabels, "those")
	for _, v := range values {
		if err := cmd.Flags().Set("selector", v); err != nil {
			t.Fatal(err)
		}
	}
	return &s
}

// TestSelectionGivenSeveralTimes requires what each flag says.
func TestSelectionGivenSeveralTimes(t *testing.T) {
	s := selection(t, "team=vision", "stage!=dev,!old")
	if s.String() != "team=vision,stage!=dev,!old" || s.Type() != TaskLabels {
		t.Error(s, s.Type())
	}
	for want, m := range map[bool]map[string]string{true: {"team": "vision", "stage": "test"}, false: {"team": "vision", "old": ""}} {
		if s.Selects(m) != want {
			t.Errorf("%v: %t", m, !want)
		}
	}
	if none := selection(t); !none.Selects(nil) || !none.IsZero() {
		t.Error("without the flag, not all are selected")
	}
	var wrong Selection
	wrong.AddSelector(&cobra.Command{Use: "x"}, NodeLabels, "those")
	if err := wrong.Set("a b"); !types.Is(err, types.Invalid) || !wrong.IsZero() {
		t.Error(err, wrong)
	}
	many := strings.TrimSuffix(strings.Repeat("a,", types.MaxLabels), ",")
	if err := selection(t, many).Set("b"); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "has 257 requirements") {
		t.Errorf("%.80v", err)
	}
}

func TestSelectionArgs(t *testing.T) {
	check := AtLeastOne("TASK")
	cmd := &cobra.Command{Use: "stop TASK..."}
	for _, test := range []struct {
		values, args []string
		want         string
	}{
		{nil, nil, "TASK: is missing"},
		{nil, []string{"web"}, ""},
		{[]string{"a"}, nil, ""},
		{[]string{"a"}, []string{"web"}, "selector: web is named too: give one of them"},
	} {
		err := selection(t, test.values...).Args(check)(cmd, test.args)
		if test.want == "" && err != nil || test.want != "" && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v %v: %v, want %q", test.values, test.args, err, test.want)
		}
	}
}

// targetsWorld has the jobs whole, part and ended, and the task alone.
func targetsWorld(t *testing.T) *controlplane.Client {
	t.Helper()
	store := memstore.New()
	change := controlplane.NewChange(controlplane.NewBatch())
	task := func(id, job, labels string, ended bool) {
		var all []types.Label
		for _, text := range strings.Fields(labels) {
			l, err := types.ParseLabel("label", text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, l)
		}
		change.Put(controlplane.TaskKey("team", id), &types.Task{Job: job, Labels: all})
		if ended {
			change.Put(controlplane.StatusKey("team", id), &types.Status{Phase: types.Succeeded})
		}
	}
	for _, job := range []string{"whole", "part", "ended"} {
		change.Put(controlplane.JobKey("team", job), &types.Job{Tasks: 2})
	}
	task("whole.0", "whole", "a=1 b=1", false)
	task("whole.1", "whole", "a=1", false)
	task("part.0", "part", "a=1", false)
	task("part.1", "part", "a=2", false)
	task("ended.0", "ended", "a=1", true)
	task("ended.1", "ended", "a=1", false)
	task("alone", "", "a=1 b=1", false)
	task("other", "", "", false)
	if _, err := store.Commit(t.Context(), change.Txn()); err != nil {
		t.Fatal(err)
	}
	client, err := controlplane.New(store, "team")
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestTargets takes a job as a whole only if all of its tasks are selected.
func TestTargets(t *testing.T) {
	client := targetsWorld(t)
	live := func(t *controlplane.TaskState) bool { return !t.Phase().Ended() }
	all := func(*controlplane.TaskState) bool { return true }
	over := func(t *controlplane.TaskState) bool { return t.Phase().Ended() }
	for _, test := range []struct {
		selector string
		keep     func(*controlplane.TaskState) bool
		want     string
	}{
		{"a=1", live, "[task alone job ended task part.0 job whole]"},
		{"a", live, "[task alone job ended job part job whole]"},
		{"a=1,!b", live, "[job ended task part.0 task whole.1]"},
		{"b", all, "[task alone task whole.0]"},
		{"a=1", over, "[job ended]"},
		{"!a", all, "[task other]"},
		{"a=9", all, "[]"},
	} {
		got, err := selection(t, test.selector).Targets(t.Context(), client, test.keep)
		if err != nil || fmt.Sprint(got) != test.want {
			t.Errorf("%s: %v, %v, want %s", test.selector, got, err, test.want)
		}
	}
	for _, test := range []struct {
		selector string
		live     bool
		want     string
	}{{"a=1", false, "[alone ended.0 ended.1 part.0 whole.0 whole.1]"}, {"a=1", true, "[alone ended.1 part.0 whole.0 whole.1]"}, {"a=9", true, "[]"}} {
		got, err := Direct{Client: client}.Selected(t.Context(), selection(t, test.selector).Selector, test.live)
		if slices.Sort(got); err != nil || fmt.Sprint(got) != test.want {
			t.Errorf("%s: %v, %v, want %s", test.selector, got, err, test.want)
		}
	}
}

func TestTellTargets(t *testing.T) {
	var out bytes.Buffer
	f := &Factory{Outside: Outside{Err: &out, Getenv: func(string) string { return "" }}, Given: contexts.Given{Namespace: "lab"}}
	s := selection(t, "team=vision")
	s.TellTargets(f, "stopping", []Named{{controlplane.Jobs, "train"}, {controlplane.Tasks, "web"}})
	s.TellNone(f, "task")
	s.TellNone(f, "node")
	want := "escher: stopping what matches team=vision: job train and task web\n" +
		"escher: no task in namespace lab matches team=vision\nescher: no node matches team=vision\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if err := s.ErrNone(f, "task", "look"); !types.Is(err, types.NotFound) || err.Error() != "selector: no task in namespace lab matches team=vision: look" {
		t.Error(err)
	}
}
