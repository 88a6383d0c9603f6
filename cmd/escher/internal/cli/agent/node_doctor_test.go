//go:build linux

package agent

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/nodeagent/machine/doctor"
)

// TestFindingsSpellCommands prints the findings of a machine that is wrong in several ways: their
// remedies are ready to paste.
func TestFindingsSpellCommands(t *testing.T) {
	facts := doctor.Facts{EUID: 1000, Cluster: &doctor.Cluster{Lease: 6}, GPU: doctor.GPU{Driver: "535", SMI: "nvidia-smi", Hangs: true}}
	facts.StateDir.NotDir = true
	var out strings.Builder
	if err := printFindings(&out, withCommands(doctor.Diagnose(facts)), false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"→ sudo escher node doctor\n", "→ choose another one with --state-dir\n", "→ escher server --endpoints …, on any machine that reaches etcd\n",
		"; then escher node drain, and restart the machine\n", "escher nodes -o wide lists them; end it, or choose another name with --node\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}
