package audit_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/audit/audittest"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// leftTest is a state with the objects left behind.
type leftTest struct {
	script string
	want   []string
}

// leftTests are states of all kinds of objects.
func leftTests() map[string]leftTest {
	return map[string]leftTest{
		"what ends with nothing stays": {script: `
put resources/d/x/* {"Capacity": 1000}
put reservations/d/r {}
put policies/d/q {"Policies": [{"Kind": "queue"}]}
`},
		"with what is there and lasts": {script: `
put tasks/d/a {"Job": "j", "Session": "s"}
put tasks/d/b {"Job": "j"}
put status/d/b {"Phase": "succeeded"}
put jobs/d/j {"Tasks": 2}
put sessions/d/s {}
put reservations/d/r {"Job": "j", "Session": "s"}
put policies/d/j {"Job": "j", "Session": "s"}
put resources/d/x/* {"Lifetime": "job", "Owner": "j"}
put resources/d/y/* {"Lifetime": "task", "Owner": "a"}
put resources/d/z/+ {"Lifetime": "session", "Owner": "s"}
put resources/d/w/* {"Lifetime": "reservation", "Owner": "r"}
put policies/d/q {"Policies": [{"Kind": "queue"}]}
put resources/d/q.queue/* {"Lifetime": "policy", "Owner": "q"}
put reservations/d/q.queue {"Policy": "q"}
`},
		"with what has ended": {script: `
put tasks/d/a {"Job": "j"}
put status/d/a {"Phase": "failed", "ExitCode": 1}
put jobs/d/j {"Tasks": 1}
put nodes/n1 {}
put alive/n1 {}
put reservations/d/r {"Job": "j"}
put policies/d/j {"Job": "j"}
put resources/d/x/* {"Lifetime": "job", "Owner": "j"}
put resources/d/y/* {"Lifetime": "task", "Owner": "a"}

put provided/d/j.x/n1 {"Job": "j", "NodeSession": $(alive/n1)}
`, want: []string{"policies d/j", "provided d/j.x/n1", "reservation d/r", "resource d/x/*", "resource d/y/*"}},
		"with what is gone": {script: `
put tasks/d/a {"Session": "s"}
put reservations/d/r {"Job": "j"}
put reservations/d/q {"Session": "s"}
put policies/d/j {"Job": "j"}
put policies/d/q {"Session": "s"}
put resources/d/x/+ {"Lifetime": "job", "Owner": "j"}
put resources/d/y/* {"Lifetime": "task", "Owner": "b"}
put resources/d/z/* {"Lifetime": "session", "Owner": "s"}
put resources/d/w/* {"Lifetime": "reservation", "Owner": "p"}
put resources/d/v/* {"Lifetime": "policy", "Owner": "p"}
put reservations/d/s {"Policy": "p"}
`, want: []string{"policies d/j", "policies d/q", "reservation d/q", "reservation d/r", "reservation d/s", "resource d/v/*", "resource d/w/*", "resource d/x/+", "resource d/y/*", "resource d/z/*", "task d/a"}},
		"of another session of its node": {script: `
put nodes/n1 {}
put alive/n1 {}

put resources/d/x/n1 {"Capacity": 1000, "NodeSession": $(alive/n1)}
put resources/d/y/n1 {"Capacity": 1000, "NodeSession": 1}
put provided/d/z/n1 {"Amount": 1000, "NodeSession": 1}
put resources/d/x/n2 {"Capacity": 1000, "NodeSession": 1}
`, want: []string{"provided d/z/n1", "resource d/x/n2", "resource d/y/n1"}},
		"tasks that are stopped, ended or invisible": {script: `
put tasks/d/a {"Session": "s", "Stop": {"Reason": "session s ended"}}
put tasks/d/b {"Session": "s"}
put status/d/b {"Phase": "succeeded"}
put tasks/d/c {"Session": "s", "Job": "j"}
`},
	}
}

// ownerTests are states in which an owner is hard to tell from another, or from none.
func ownerTests() map[string]leftTest {
	return map[string]leftTest{
		"a visible task of a session that ended": {script: `
put tasks/d/a {"Session": "s", "Job": "j"}
put jobs/d/j {"Tasks": 1}
`, want: []string{"task d/a"}},
		"of an owner of the same name elsewhere": {script: `
put tasks/e/a {}
put sessions/e/s {}
put resources/d/x/* {"Lifetime": "task", "Owner": "a"}
put resources/d/y/* {"Lifetime": "session", "Owner": "s"}
`, want: []string{"resource d/x/*", "resource d/y/*"}},
		"of a job with one task that waits": {script: `
put tasks/d/a {"Job": "j"}
put tasks/d/b {"Job": "j"}
put status/d/b {"Phase": "cancelled", "Reason": "x"}
put jobs/d/j {"Tasks": 2}
put resources/d/x/+ {"Lifetime": "job", "Owner": "j"}
`},
		"of an owner that only a status or grant recalls": {script: `
put status/d/a {"Phase": "succeeded"}
put grants/d/r {"Phase": "releasing"}
put resources/d/x/* {"Lifetime": "task", "Owner": "a"}
put resources/d/y/* {"Lifetime": "reservation", "Owner": "r"}
`, want: []string{"resource d/x/*", "resource d/y/*"}},
		"of a node that is not alive": {script: `
put nodes/n1 {}
put resources/d/x/n1 {"Capacity": 1000, "NodeSession": 2}
put provided/d/z/n1 {"Amount": 1000, "NodeSession": 2}
`, want: []string{"provided d/z/n1", "resource d/x/n1"}},
	}
}

func TestLeft(t *testing.T) {
	tests := leftTests()
	maps.Copy(tests, ownerTests())
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			steps, err := audittest.Parse(test.script)
			if err != nil {
				t.Fatal(err)
			}
			c := audit.NewChecker()
			for _, s := range steps {
				c.Apply(s.Batch)
			}
			var got []string
			for _, f := range c.Left() {
				if f.Guarantee != audit.NothingLeft || f.Revision != c.Revision() || f.Text.IsZero() {
					t.Errorf("found %+v", f)
				}
				got = append(got, f.Object)
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, test.want) {
				t.Errorf("left are %q, want %q", got, test.want)
			}
		})
	}
}

// TestRunWaitsForTheCollector checks that an object deleted some seconds later, or created
// meanwhile, is no finding, and one that stays is. Run waits no longer than it must, and names the
// work it waits for.
func TestRunWaitsForTheCollector(t *testing.T) {
	of := func(job string) *types.Resource { return &types.Resource{Lifetime: types.OfJob, Owner: job} }
	key := func(name string) string { return controlplane.ResourceKey("d", name, types.ClusterWide) }
	for deleted, takes := range map[time.Duration]time.Duration{time.Second: 30 * time.Second, 4 * time.Second: 5 * time.Second, 20 * time.Second: 24 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			change := func(f func(*controlplane.Change)) {
				c := controlplane.NewChange(1)
				f(c)
				if _, err := store.Commit(t.Context(), c.Txn()); err != nil {
					t.Error(err)
				}
			}
			change(func(c *controlplane.Change) { c.Put(key("x"), of("j")) })
			if deleted == time.Second {
				// This one stays.
				change(func(c *controlplane.Change) { c.Put(key("y"), of("k")) })
			}
			go func() {
				time.Sleep(deleted)
				change(func(c *controlplane.Change) { c.Delete(key("x")); c.Put(key("z"), of("j")) })
			}()
			began := time.Now()
			var waits []string
			report, err := audit.Run(t.Context(), store, func(left []audit.Finding) { waits = append(waits, left[0].Object) })
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if deleted == time.Second {
				want = []string{"NothingLeft resource d/y/*"}
			}
			if got := names(report.Findings); !slices.Equal(got, want) {
				t.Errorf("deleted after %s: found %q, want %q", deleted, got, want)
			}
			if took := time.Since(began); took != takes || waits[0] != "resource d/x/*" {
				t.Errorf("deleted after %s: it took %s, want %s, waiting for %q", deleted, took, takes, waits)
			}
		})
	}
}
