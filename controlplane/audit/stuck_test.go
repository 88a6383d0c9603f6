package audit_test

import (
	"slices"
	"testing"

	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/audit/audittest"
)

// TestStuck checks that unfinished work is found until it is done.
func TestStuck(t *testing.T) {
	const bound = `put nodes/n1 {"Capacity": {"cpu": "2"}}
put alive/n1 {}
put tasks/d/a {}

put bindings/n1/d/a/1 {"Session": $(alive/n1)}
put status/d/a {"Phase": "bound", "Node": "n1", "Attempt": 1}
put allocated/n1 {}

`
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"nothing to do":    {bound, nil},
		"an attempt ended": {bound + `put reports/n1/d/a/1 {"Phase": "exited", "Binding": $(bindings/n1/d/a/1)}`, []string{"Progress task d/a"}},
		"a pending stop":   {`put tasks/d/a {"Stop": {"Reason": "x"}}`, []string{"Progress task d/a"}},
		"a stop not told":  {bound + `put tasks/d/a {"Stop": {"Reason": "x"}}`, []string{"Progress task d/a"}},
		"an eviction":      {bound + `put tasks/d/a {"Evict": 1}`, []string{"Progress task d/a"}},
		"a stop that is told": {bound + "put tasks/d/a {\"Stop\": {\"Reason\": \"x\"}}\n\n" +
			`put bindings/n1/d/a/1 {"Session": $(alive/n1), "Stop": {"Reason": "x"}}`, nil},
		"a part that is not returned": {`put reservations/d/r {"Bundles": [{"requests": {"cpu": "1"}}], "Accumulate": true, "Collect": {"On": ["n2"]}}

put grants/d/r {"Phase": "collecting", "Reservation": $(reservations/d/r), "Bundles": ["n1"], "Nodes": [{"Node": "n1", "Holds": [{"Resource": "cpu", "Amount": 1}]}]}`, []string{"Progress grant d/r"}},
		"a part that is collected": {`put tasks/d/a {"Requests": {"cpu": "4"}, "Accumulate": true, "Later": {"Collect": {"On": ["n1"]}}}

put grants/d/a {"Phase": "collecting", "Task": $(tasks/d/a), "Bundles": ["n1"], "Nodes": [{"Node": "n1", "Holds": [{"Resource": "cpu", "Amount": 1}]}]}`, nil},
		"a report of an earlier binding": {bound + `put reports/n1/d/a/1 {"Phase": "exited", "Binding": 1}`, nil},
		"a stop of an ended task": {"put tasks/d/a {}\n\n" + `put tasks/d/a {"Stop": {"Reason": "x"}}
put status/d/a {"Phase": "cancelled", "Reason": "x"}`, nil},
		"an eviction of an earlier attempt": {bound + `put tasks/d/a {"Evict": 2}`, nil},
		"an eviction that is told": {bound + "put tasks/d/a {\"Evict\": 1}\n\n" +
			`put bindings/n1/d/a/1 {"Session": $(alive/n1), "Stop": {"Evicted": true}}`, nil},
		"a part of a task that is gone":        {`put grants/d/a {"Phase": "collecting", "Task": 1, "Bundles": ["n1"], "Nodes": [{"Node": "n1", "Holds": [{"Resource": "cpu", "Amount": 1}]}]}`, []string{"Progress grant d/a"}},
		"a part of a reservation that is gone": {`put grants/d/r {"Phase": "collecting", "Reservation": 1, "Bundles": ["n1"], "Nodes": [{"Node": "n1", "Holds": [{"Resource": "cpu", "Amount": 1}]}]}`, []string{"Progress grant d/r"}},
		"a part that is returned": {`put reservations/d/r {"Bundles": [{"requests": {"cpu": "1"}}], "Accumulate": true}

put grants/d/r {"Phase": "collecting", "Reservation": $(reservations/d/r), "Bundles": ["n1"], "Nodes": [{"Node": "n1"}]}`, nil},
		"a releasing grant that a task draws on": {bound + `put grants/d/r {"Phase": "releasing", "Nodes": [{"Node": "n1", "Holds": [{"Resource": "cpu", "Amount": 1000}]}]}
put bindings/n1/d/b/1 {"Session": $(alive/n1), "Holds": [{"Resource": "d:cpu@r", "Amount": 1}]}`, nil},
		"a releasing grant that a task draws another resource of": {bound + `put grants/d/r {"Phase": "releasing", "Nodes": [{"Node": "n1", "Holds": [{"Resource": "cpu", "Amount": 1000}]}]}
put bindings/n1/d/b/1 {"Session": $(alive/n1), "Holds": [{"Resource": "d:memory@r", "Amount": 1}]}`, []string{"Progress grant d/r"}},
		"a grant that nothing draws on": {`put grants/d/r {"Phase": "releasing", "Reservation": 1}`, []string{"Progress grant d/r"}},
	} {
		t.Run(name, func(t *testing.T) {
			steps, err := audittest.Parse(c.script)
			if err != nil {
				t.Fatal(err)
			}
			checker := audit.NewChecker()
			for _, s := range steps {
				checker.Apply(s.Batch)
			}
			if got := names(checker.Stuck()); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
