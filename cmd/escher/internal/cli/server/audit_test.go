package server

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/types"
)

// TestVerdict asks to repair keys that cannot be read before anything is reported.
func TestVerdict(t *testing.T) {
	schema, other := audit.Finding{Guarantee: audit.Schema}, audit.Finding{Guarantee: audit.AllocatedIsSum}
	for _, x := range []struct {
		found []audit.Finding
		class types.Class
		says  string
	}{
		{[]audit.Finding{other, other}, types.Internal, "2 findings: please report it"},
		{[]audit.Finding{schema}, types.Precondition, "1 key unreadable: repair each"},
		{[]audit.Finding{schema, other, schema}, types.Precondition, "3 findings, 2 of them unreadable keys: repair these and audit again"},
	} {
		var n counted
		n.add(x.found)
		if err := n.verdict(); !types.Is(err, x.class) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%v: %v", x.found, err)
		}
	}
	if err := new(counted).verdict(); err != nil {
		t.Error(err)
	}
}
