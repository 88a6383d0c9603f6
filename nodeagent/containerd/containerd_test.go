package containerd_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/containerd/containerdtest"
	"github.com/escher-sched/escher/nodeagent/runtimetest"
)

// TestContainerd runs all that needs a daemon on one: to start it takes a second.
func TestContainerd(t *testing.T) {
	h := containerdtest.New(t)
	t.Run("Conformance", func(t *testing.T) {
		cluster := uuid.NewString()
		runtimetest.Run(t, runtimetest.Fixture{
			Cluster: cluster,
			Open:    func(t *testing.T, node string) nodeagent.Runtime { return h.Open(t, cluster, node) },
		})
	})
}
