package bench

import (
	"errors"
	"strings"
	"testing"
)

// TestSureToFit: with few tasks per node, the error says that they may not fit.
func TestSureToFit(t *testing.T) {
	stalled := errors.New("stalled")
	if err := sureToFit(stalled, 5000, 50_000); err != stalled {
		t.Errorf("got %v", err)
	}
	if err := sureToFit(nil, 5000, 10_000); err != nil {
		t.Errorf("got %v", err)
	}
	err := sureToFit(stalled, 5000, 10_000)
	if !errors.Is(err, stalled) || !strings.Contains(err.Error(), "10000 tasks on 5000 nodes are not sure to fit: give --tasks 50000 or more") {
		t.Errorf("got %v", err)
	}
}
