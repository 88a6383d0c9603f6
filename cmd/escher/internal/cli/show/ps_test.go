package show

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
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
