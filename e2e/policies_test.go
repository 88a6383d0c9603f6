package e2e

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// line is a job in a fair queue that admits two at a time: without a policy runner no task of it
// begins.
const line = `
apiVersion: escher.dev/v1
kind: Policy
name: line
policy:
  name: fair-queue
  with: {limit: 2, flows: {gold: 2}}
---
apiVersion: escher.dev/v1
kind: Job
name: crunch
count: 24
policies:
  - name: flow
    with: {in: line, as: gold}
template:
  requests: {cpu: 100m}
  spec: {image: img}
`

// TestPoliciesOutliveTheirServer kills the server that runs the policies when some of the tasks
// have been admitted: another one continues, admits no more at a time, and nothing is left when the
// job has ended.
func TestPoliciesOutliveTheirServer(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFleet(t, "s1", "s2")
	f.agent("n1", nodeagent.DefaultTTL, simruntime.Behaviour{Run: 200 * time.Millisecond})
	f.await("n1 is alive", func() bool { return f.count(controlplane.Alive) == 1 })
	escher := func(args ...string) outcome { return command(t, nil, append(args, "--endpoints", f.endpoint)...) }
	if o := escher("apply", "-f", write(t, line)); o.code != 0 {
		t.Fatalf("apply: %+v", o)
	}
	most := 0
	ended := func() int {
		phases := make(map[types.Phase]int)
		for _, s := range f.statuses() {
			phases[s.Phase]++
		}
		most = max(most, phases[types.Bound]+phases[types.Running])
		return phases[types.Succeeded]
	}
	f.await("some have ended", func() bool { return ended() >= 3 })
	first := f.leader("policies")
	if f.servers[first] == nil {
		t.Fatalf("%q keeps the policies", first)
	}
	if err := f.servers[first].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.await("all have ended", func() bool { return ended() == 24 })
	if second := f.leader("policies"); second == first || second == "" {
		t.Errorf("%q keeps the policies, after %q was killed", second, first)
	}
	if most > 2 {
		t.Errorf("%d were let in at once", most)
	}
	f.await("nothing is left of the job", func() bool { return f.count(controlplane.Policies, "default") == 1 })
	if o := escher("policies", "rm", "line"); o.code != 0 {
		t.Errorf("policies rm: %+v", o)
	}
	f.await("nothing is left", func() bool {
		return f.count(controlplane.Policies)+f.count(controlplane.Resources)+f.count(controlplane.Bindings) == 0
	})
	f.audited()
}
