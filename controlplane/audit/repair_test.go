package audit_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/audit/audittest"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// repairable is a consistent cluster. Task a runs on n1 with a device and a part of a pool, a grant
// holds some cpu, and b waits.
const repairable = `
put nodes/n1 {"Capacity": {"cpu": "4", "gpu": "2"}}
put devices/n1 {"Devices": [{"ID": "g0", "Resource": "gpu", "NUMA": -1}, {"ID": "g1", "Resource": "gpu", "NUMA": -1}]}
put resources/d/lic/* {"Capacity": 5000}
put tasks/d/a {"Name": "a", "Requests": {"cpu": "1", "gpu": "1", "lic": "1"}}
put tasks/d/b {"Name": "b", "Requests": {"cpu": "500m"}}
put reservations/d/r {"Bundles": [{"Requests": {"cpu": "2"}}]}

put alive/n1 {}

put bindings/n1/d/a/1 {"Session": $(alive/n1), "Holds": [{"Resource": "cpu", "Amount": 1000}, {"Resource": "d:lic", "Amount": 1000, "Cluster": true}, {"Resource": "gpu", "Amount": 1000, "Devices": [{"ID": "g1", "Share": 1000}]}]}
put status/d/a {"Phase": "bound", "Node": "n1", "Attempt": 1}
put grants/d/r {"Phase": "granted", "Reservation": $(reservations/d/r), "Nodes": [{"Node": "n1", "Holds": [{"Resource": "cpu", "Amount": 2000}]}], "Bundles": ["n1"]}
put allocated/n1 {"Holds": [{"Resource": "cpu", "Amount": 3000}, {"Resource": "gpu", "Amount": 1000, "Devices": [{"ID": "g1", "Share": 1000}]}]}
put allocated/*/d/lic {"Holds": [{"Resource": "d:lic", "Amount": 1000}]}

put reports/n1/d/a/1 {"Phase": "running", "Binding": $(bindings/n1/d/a/1)}
put status/d/a {"Phase": "running", "Node": "n1", "Attempt": 1}
`

// TestRepair spoils one key after the other of a consistent cluster, repairs it, and then finds
// nothing wrong.
func TestRepair(t *testing.T) {
	failed := func(t *testing.T, store controlplane.Store) {
		if s := statusOf(t, store, "a"); s.Phase != types.Failed || s.Attempt != 1 || s.Reason != audit.RepairReason {
			t.Errorf("%+v", s)
		}
	}
	for key, x := range map[string]struct {
		does, writer string
		after        func(t *testing.T, store controlplane.Store)
	}{
		"allocated/n1":      {"writes the amounts that bindings and grants hold there", "the scheduler", nil},
		"allocated/*/d/lic": {"writes the amounts that bindings and grants hold there", "the scheduler", nil},
		"bindings/n1/d/a/1": {"ends task d/a as failed, and recomputes the amounts in use on node n1", "the scheduler", failed},
		"status/d/a": {"writes that it is bound to node n1", "the scheduler", func(t *testing.T, store controlplane.Store) {
			if s := statusOf(t, store, "a"); s.Phase != types.Bound || s.Node != "n1" || s.Attempt != 1 {
				t.Errorf("%+v", s)
			}
		}},
		"status/d/b":        {"ends task d/b as failed", "the scheduler", nil},
		"status/d/unknown":  {"removes the key", "the scheduler", nil},
		"bindings/n1/d/x/7": {"removes the key", "the scheduler", nil},
		"bindings/n1/d/a/7": {"removes the key", "the scheduler", nil},
		"bindings/n2/d/a/1": {"removes the key", "the scheduler", nil},
		"resources/d/y/+":   {"removes the key", "the application", nil},
		"cordons/n1":        {"removes the key", "the administrator", nil},
		"tasks/d/..":        {"removes the key", "a program other than Escher", nil},
		"what/is/this":      {"removes the key", "a program other than Escher", nil},
	} {
		t.Run(strings.ReplaceAll(key, "/", " "), func(t *testing.T) {
			store := memstore.New()
			steps, err := audittest.Parse(repairable)
			if err != nil {
				t.Fatal(err)
			}
			replay(t, store, steps)
			if report, err := audit.Run(t.Context(), store); err != nil || len(report.Findings) > 0 {
				t.Fatal(report.Findings, err)
			}
			key := controlplane.Root + key
			if _, err := store.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: []byte("junk")}}}); err != nil {
				t.Fatal(err)
			}
			report, err := audit.Run(t.Context(), store)
			if err != nil || !slices.ContainsFunc(report.Findings, func(f audit.Finding) bool {
				return f.Guarantee == audit.Schema && f.Object == "key "+key && strings.Contains(f.Text.String(), "repair key "+key)
			}) {
				t.Errorf("%v, %v", report.Findings, err)
			}
			r, err := audit.PlanRepair(t.Context(), store, key, time.Unix(1000, 0))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(r.Does, x.does) || !strings.HasPrefix(r.Writer(), x.writer) || string(r.Value) != "junk" || r.Why == "" {
				t.Errorf("%+v, %s", r, r.Writer())
			}
			if err := r.Perform(t.Context(), store); err != nil {
				t.Fatal(err)
			}
			if report, err := audit.Run(t.Context(), store); err != nil || len(report.Findings) > 0 {
				t.Error(report.Findings, err)
			}
			if x.after != nil {
				x.after(t, store)
			}
			if err := r.Perform(t.Context(), store); !types.Is(err, types.Conflict) {
				t.Errorf("repaired twice: %v", err)
			}
		})
	}
}

// TestRepairReadable repairs readable keys that are wrong: one without its lease, and amounts in use.
func TestRepairReadable(t *testing.T) {
	for name, x := range map[string]struct {
		key       string
		value     types.Message
		guarantee audit.Guarantee
		why, does string
	}{
		"a scheduler without a lease": {"schedulers/s2", &types.Leader{Holder: "gone"}, audit.Schema, "it has no lease", "removes the key"},
		"a node without a lease":      {"alive/n2", &types.Alive{TTLSeconds: 15}, audit.Schema, "it has no lease", "removes the key"},
		"a session without one":       {"sessions/d/s", &types.Session{Name: "s"}, audit.Schema, "it has no lease", "removes the key"},
		"too much in use": {"allocated/n1", &types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: 4000}}},
			audit.AllocatedIsSum, "node n1 cpu: 4 allocated, 3 held", "writes the amounts that bindings and grants hold there"},
		"a missing amount in use":  {"allocated/n1", nil, audit.AllocatedIsSum, "node n1 cpu: 0 allocated, 3 held", "writes the amounts"},
		"nothing in use of a pool": {"allocated/*/d/lic", &types.Allocated{}, audit.AllocatedIsSum, "0 allocated, 1 held", "writes the amounts"},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			steps, err := audittest.Parse(repairable)
			if err != nil {
				t.Fatal(err)
			}
			replay(t, store, steps)
			key := controlplane.Root + x.key
			op := controlplane.Op{Key: key, Delete: x.value == nil}
			if !op.Delete {
				op.Value = types.Encode(1, x.value)
			}
			if _, err := store.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{op}}); err != nil {
				t.Fatal(err)
			}
			report, err := audit.Run(t.Context(), store)
			if err != nil || !slices.ContainsFunc(report.Findings, func(f audit.Finding) bool {
				return f.Guarantee == x.guarantee && strings.Contains(f.Text.String(), "repair key "+key)
			}) {
				t.Errorf("%v, %v", report.Findings, err)
			}
			r, err := audit.PlanRepair(t.Context(), store, key, time.Unix(1000, 0))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(r.Why, x.why) || !strings.Contains(r.Does, x.does) {
				t.Errorf("%+v", r)
			}
			if err := r.Perform(t.Context(), store); err != nil {
				t.Fatal(err)
			}
			if report, err := audit.Run(t.Context(), store); err != nil || len(report.Findings) > 0 {
				t.Error(report.Findings, err)
			}
		})
	}
}

func statusOf(t *testing.T, store controlplane.Store, id string) types.Status {
	t.Helper()
	page, err := store.List(t.Context(), controlplane.ListOptions{Key: controlplane.StatusKey("d", id)})
	if err != nil || len(page.KVs) != 1 {
		t.Fatal(page, err)
	}
	var s types.Status
	if err := types.Decode(page.KVs[0].Value, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRepairRefuses checks that a readable, missing or changed key is not repaired.
func TestRepairRefuses(t *testing.T) {
	store := memstore.New()
	steps, err := audittest.Parse(repairable)
	if err != nil {
		t.Fatal(err)
	}
	replay(t, store, steps)
	if _, err := audit.PlanRepair(t.Context(), store, "/escher/allocated/n1", time.Now()); !types.Is(err, types.Precondition) {
		t.Error(err)
	}
	if _, err := audit.PlanRepair(t.Context(), store, "/escher/allocated/n2", time.Now()); !types.Is(err, types.NotFound) {
		t.Error(err)
	}
	commit := func(key, value string) {
		if _, err := store.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: []byte(value)}}}); err != nil {
			t.Fatal(err)
		}
	}
	commit("/escher/cordons/n1", "junk")
	r, err := audit.PlanRepair(t.Context(), store, "/escher/cordons/n1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	commit("/escher/cordons/n1", "other junk")
	if err := r.Perform(t.Context(), store); !types.Is(err, types.Conflict) || !strings.Contains(err.Error(), "/escher/cordons/n1") {
		t.Error(err)
	}
}
