package nodeagent_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/escher-sched/escher/nodeagent"
)

// TestContainerIDSuitsContainerd tests that containerd accepts the id of any task, and that no two
// attempts share one.
func TestContainerIDSuitsContainerd(t *testing.T) {
	accepted := regexp.MustCompile(`^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$`)
	seen := make(map[string]string)
	for _, task := range []string{"a", "a--b", "a-.b", "a_b", "a-b", strings.Repeat("x", 39) + "-y", strings.Repeat("y.", 31) + "z"} {
		id := nodeagent.ContainerID(nodeagent.Attempt{Cluster: "c", Node: "n1", Namespace: "d", Task: task, Number: 1, Revision: 7})
		if !accepted.MatchString(id) || len(id) > 76 {
			t.Errorf("%s: %s is refused by containerd", task, id)
		}
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s share %s", task, other, id)
		}
		seen[id] = task
	}
}
