package cli

import (
	"os"

	"github.com/escher-sched/escher/types"
)

// logPath returns where the log of an attempt is.
func (f *Factory) logPath(node, ns, id string, attempt int) (string, error) {
	dir, err := f.Dir()
	if err != nil {
		return "", err
	}
	return dir.LogPath(node, ns, id, attempt), nil
}

// showLog copies the log of an attempt, on whichever node it was.
func (f *Factory) showLog(ns, id string, attempt int) error {
	dir, err := f.Dir()
	if err != nil {
		return err
	}
	nodes, err := dir.AgentNodes()
	if err != nil {
		return err
	}
	for _, node := range nodes {
		path := dir.LogPath(node, ns, id, attempt)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		r := newLogReader(path)
		defer r.close()
		return r.copyNew(f.Out)
	}
	return types.Errorf(types.NotFound, "show attempt %d of task %s: it has no log below %s: it did not start, or ran on another machine", attempt, id, dir)
}
