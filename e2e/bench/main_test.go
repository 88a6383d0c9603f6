package bench

import (
	"testing"

	"github.com/escher-sched/escher/e2e/bench/rigtest"
)

// TestMain lets the test binary run the parts of clusters.
func TestMain(m *testing.M) { rigtest.Main(m, parts()) }
