package nodeagent

import (
	"context"
	"os"
	"path/filepath"

	"go.uber.org/zap"
)

// dropScratch removes the scratch directories of an attempt.
func (t *task) dropScratch() {
	if t.a.cfg.StateDir == "" {
		return
	}
	if err := os.RemoveAll(t.a.cfg.scratchDir(t.id)); err != nil {
		t.log.Error("scratch directory not removed", zap.Error(err))
	}
}

// sweepScratch removes the scratch directories of attempts that are gone. The caller holds a.mu.
func (a *Agent) sweepScratch() {
	if a.cfg.StateDir == "" {
		return
	}
	entries, err := os.ReadDir(filepath.Join(a.cfg.StateDir, "scratch"))
	if err != nil {
		return // There is no directory yet.
	}
	var left []string
	for _, e := range entries {
		if a.tasks[e.Name()] == nil {
			left = append(left, a.cfg.scratchDir(e.Name()))
		}
	}
	if len(left) == 0 {
		return
	}
	a.spawn(func(context.Context) {
		for _, dir := range left {
			_ = os.RemoveAll(dir) // The next life tries again.
		}
	})
}
