package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/types"
)

// TestGangsOfTwoFlows lets two gangs of different flows, each with more gates than one plan opens
// and both together above the limit, begin one after the other on an empty cluster.
func TestGangsOfTwoFlows(t *testing.T) {
	for _, test := range []struct{ limit, a, b, ops int }{
		{150, 64, 64, 4096},
		{150, 64, 128, 4096},
		{150, 128, 64, 4096},
		{150, 128, 128, 4096},
		{60, 40, 50, 128},
		{60, 50, 60, 128},
	} {
		t.Run(fmt.Sprintf("%d+%d of %d", test.a, test.b, test.limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New(memstore.WithLimits(controlplane.Limits{Ops: test.ops, Bytes: 3 << 19}))
				s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 512), NoAudit: true, NoKeep: true, Store: store}, "f", admission.FairQueue{Limit: test.limit, Anyone: 1})
				of := func(flow string, n int) controlplane.Launched {
					return s.Submit(esl.Copies(n, hollow.Task(1000, "run", "10s")), gang.Gang{}, esl.Use{Name: "f", As: flow})
				}
				a, b := of("a", test.a), of("b", test.b)
				s.Keep()
				time.Sleep(30 * time.Second)
				if m, n := len(esltest.Begun(s, a)), len(esltest.Begun(s, b)); m != test.a || n != test.b {
					t.Errorf("%d of %d and %d of %d have begun", m, test.a, n, test.b)
				}
			})
		})
	}
}

// TestGangHalfLetIn closes all gates of a gang when the limit has become too small for the rest of
// it, so that another flow goes on. It admits the gang when there is capacity again.
func TestGangHalfLetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(16, 64), NoAudit: true, NoKeep: true}, "f", admission.FairQueue{Limit: 150, Anyone: 1})
		gang := s.Submit(esl.Copies(128, hollow.Task(1000, "run", "10s")), gang.Gang{}, esl.Use{Name: "f", As: "a"})
		for i := range 70 { // as an earlier plan left it
			_, err := s.Jobs.SetResource(t.Context(), fmt.Sprintf("%s.fair-queue.%d", gang.Job, i), types.Quantity(time.Now().Unix())*esl.One, controlplane.InCluster(), esl.OfJob(gang.Job))
			if err != nil {
				t.Fatal(err)
			}
		}
		esltest.Declare(s, map[string]esl.Shared{"f": admission.FairQueue{Limit: 100, Anyone: 1}})
		single := s.Submit(esl.Copies(60, hollow.Task(1000, "run", "10s")), esl.Use{Name: "f", As: "b"})
		s.Keep()
		time.Sleep(50 * time.Second)
		if m, n := len(esltest.Begun(s, gang)), len(esltest.Begun(s, single)); m != 0 || n != 0 {
			t.Errorf("%d of the gang and %d others have begun, while its gates are open", m, n)
		}
		time.Sleep(30 * time.Second)
		if m, n := len(esltest.Begun(s, gang)), len(esltest.Begun(s, single)); m != 0 || n != 60 {
			t.Errorf("%d of the gang and %d of 60 others have begun", m, n)
		}
		for rid, pool := range s.Snapshot().Pools {
			if strings.HasPrefix(string(rid), "d:"+gang.Job+".fair-queue.") && pool.Capacity() > 0 {
				t.Errorf("%s is open", rid)
			}
		}
		esltest.Declare(s, map[string]esl.Shared{"f": admission.FairQueue{Limit: 150, Anyone: 1}})
		time.Sleep(30 * time.Second)
		if m := len(esltest.Begun(s, gang)); m != 128 {
			t.Errorf("%d of 128 have begun", m)
		}
	})
}
