package show

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestPsListsTheNewest: of more tasks than the limit, and of many of the same age, the newest stay,
// whatever their names.
func TestPsListsTheNewest(t *testing.T) {
	p := psFlags{limit: 3}
	for _, x := range []struct {
		ages []time.Duration
		want string
	}{
		{[]time.Duration{5, 5, 1}, "551"},
		{[]time.Duration{5, 5, 5, 1}, "551"},
		{[]time.Duration{9, 5, 5, 5, 1, 2, 9}, "512"},
		{[]time.Duration{4, 3, 2, 1}, "321"},
		{[]time.Duration{7, 7, 7, 7, 7}, "777"},
	} {
		var rows []TaskRow
		for _, age := range x.ages {
			rows = append(rows, TaskRow{Age: age})
		}
		got := ""
		for _, row := range p.newest(rows) {
			got += fmt.Sprint(int(row.Age))
		}
		if got != x.want {
			t.Errorf("of %v it lists %s, want %s", x.ages, got, x.want)
		}
	}
}

// TestPsOfVeryMany leaves tasks out of the list while it reads them, and counts them.
func TestPsOfVeryMany(t *testing.T) {
	const many = 5000
	store := memstore.New(memstore.WithLimits(controlplane.Limits{Ops: 1 << 20, Bytes: 1 << 30}))
	c := controlplane.NewChange(1)
	for i := range many {
		c.Put(controlplane.TaskKey("team", fmt.Sprintf("t%04d", i)), &types.Task{Submitted: int64(i * 7919 % many)})
	}
	if _, err := store.Commit(context.Background(), c.Txn()); err != nil {
		t.Fatal(err)
	}
	client, err := controlplane.New(store, "team")
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	p := psFlags{limit: 10}
	if err := p.list(t.Context(), &cmdutil.Factory{Outside: cmdutil.Outside{Out: &out, Err: &errs}}, client); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 11 || !strings.Contains(errs.String(), "these are the newest 10; 4990 more") {
		t.Fatalf("it lists\n%s%s", out.String(), errs.String())
	}
	for _, line := range lines[1:] {
		var i int
		if _, err := fmt.Sscanf(line, "t%d", &i); err != nil || i*7919%many < many-10 {
			t.Errorf("%q is not of the newest", line)
		}
	}
}

// TestPsInOrderOfTheIndex: the ids of tasks have no order once an update has replaced some, or the count
// has more digits.
func TestPsInOrderOfTheIndex(t *testing.T) {
	store := memstore.New()
	c := controlplane.NewChange(1)
	for id, task := range map[string]types.Task{
		"web-b.2": {Job: "web-x", Index: 2, Count: 12}, "web-c.10": {Job: "web-x", Index: 10, Count: 12}, "web-d.1": {Job: "web-x", Index: 1, Count: 12, Submitted: 2},
		"web-e.1": {Job: "web-x", Index: 1, Count: 12, Submitted: 1}, "web-z.0": {Job: "web-x", Index: 0, Count: 12}, "web-f": {}, "zoo": {}, "old-2": {Job: "old"}, "old-1": {Job: "old"},
	} {
		c.Put(controlplane.TaskKey("team", id), &task)
	}
	for _, job := range []string{"old", "web-x"} {
		c.Put(controlplane.JobKey("team", job), &types.Job{Tasks: 1})
	}
	if _, err := store.Commit(t.Context(), c.Txn()); err != nil {
		t.Fatal(err)
	}
	client, err := controlplane.New(store, "team")
	if err != nil {
		t.Fatal(err)
	}
	const want = "old-1 old-2 web-f web-z.0 web-e.1 web-d.1 web-b.2 web-c.10 zoo"
	var out strings.Builder
	f := &cmdutil.Factory{Outside: cmdutil.Outside{Out: &out, Err: &out}, Format: table.Name}
	if err := (&psFlags{}).list(t.Context(), f, client); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(out.String()), " "); got != want {
		t.Errorf("ps lists %s, want %s", got, want)
	}
	view, err := cmdutil.ReadView(t.Context(), store, controlplane.Root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range TaskRows(view, "team", time.Unix(9, 0), func(TaskRow) bool { return true }) {
		got = append(got, row.ID)
	}
	if strings.Join(got, " ") != want {
		t.Errorf("others list %s, want %s", got, want)
	}
}
