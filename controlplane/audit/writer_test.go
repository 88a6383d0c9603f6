package audit_test

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/writers"
)

func TestOneWriter(t *testing.T) {
	put := func(key string) controlplane.Op { return controlplane.Op{Key: key} }
	del := func(key string) controlplane.Op { return controlplane.Op{Key: key, Delete: true} }
	agent := audit.Author{Writer: writers.Agent, Node: "n1"}
	app := audit.Author{Writer: writers.Application, Namespace: "d"}
	scheduler := audit.Author{Writer: writers.Scheduler}
	for _, c := range []struct {
		by   audit.Author
		op   controlplane.Op
		want string
	}{
		{agent, put(controlplane.ReportKey("n1", "d", "a", 1)), ""},
		{agent, put(controlplane.ReportKey("n2", "d", "a", 1)), "put by the agent n1"},
		{agent, del(controlplane.ReportKey("n1", "d", "a", 1)), "deleted by the agent n1"},
		{agent, put(controlplane.BindingKey("n1", "d", "a", 1)), "put by the agent n1"},
		{app, put(controlplane.TaskKey("d", "a")), ""},
		{app, put(controlplane.TaskKey("e", "a")), "put by the application of d"},
		{app, put(controlplane.StatusKey("d", "a")), "put by the application of d"},
		{app, del(controlplane.ResourceKey("d", "x", "n1")), ""},
		{scheduler, put(controlplane.StatusKey("e", "a")), ""},
		{scheduler, del(controlplane.StatusKey("e", "a")), "deleted by the scheduler"},
		{scheduler, put(controlplane.TaskKey("d", "a")), "put by the scheduler"},
	} {
		found := audit.NewAuthored().Check(c.by, controlplane.Txn{Ops: []controlplane.Op{c.op}}, 7)
		if c.want == "" {
			if len(found) > 0 {
				t.Errorf("%s, %s: %v", c.by, c.op.Key, found)
			}
			continue
		}
		if len(found) != 1 || found[0].Guarantee != audit.OneWriter || found[0].Revision != 7 ||
			!strings.Contains(found[0].Object, c.op.Key) || found[0].Text.String() != c.want {
			t.Errorf("%s, %s: %v, want %q", c.by, c.op.Key, found, c.want)
		}
	}
}
