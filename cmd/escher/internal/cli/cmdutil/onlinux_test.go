package cmdutil

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestOnLinux says where a command runs, whatever its arguments are.
func TestOnLinux(t *testing.T) {
	cmd := OnLinux("agent", "Run the agent of a machine")
	cmd.SetArgs([]string{"--node", "x"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.Execute(); !types.Is(err, types.Precondition) || !strings.HasPrefix(err.Error(), "agent: runs on Linux alone") {
		t.Error(err)
	}
}
