package cli

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestEmptyFlags: one that is given without a value does not leave its policy out.
func TestEmptyFlags(t *testing.T) {
	for _, flag := range []string{"queue", "share", "semaphore", "spread", "together", "colocate-with", "near", "on-loss", "prefer"} {
		p := flagsOf(t, "--"+flag, "")
		if made, err := p.policies(); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), `"" `) || len(made) > 0 {
			t.Errorf("--%s '': %v, %v", flag, made, err)
		}
	}
	p := flagsOf(t, "--ageing", "0s")
	if made, err := p.policies(); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), "ageing: 0s") {
		t.Errorf("--ageing 0s: %v, %v", made, err)
	}
}
