package nodeagent

import (
	"os"
	"path/filepath"
)

// marks remember why the agent ends a process, from before its signal on: an agent
// that restarts in between must not take the end for the process's own. They need
// not outlast the machine, as the process does not.
type marks struct{ dir string }

func newMarks(stateDir string) marks {
	if stateDir == "" {
		return marks{}
	}
	return marks{filepath.Join(stateDir, "ending")}
}

func (m marks) set(id string, cause Cause) error {
	if m.dir == "" {
		return nil
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	return replace(filepath.Join(m.dir, id), []byte(cause), false)
}

// get returns the cause, empty if there is no mark.
func (m marks) get(id string) Cause {
	if m.dir == "" {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(m.dir, id))
	if err != nil {
		return ""
	}
	switch cause := Cause(text); cause {
	case Stopped, Overran, Expired, Fenced:
		return cause
	}
	return ""
}

func (m marks) drop(id string) {
	if m.dir != "" {
		_ = os.Remove(filepath.Join(m.dir, id)) // Most have none.
	}
}

// sweep drops the marks of all but those that are wanted.
func (m marks) sweep(wanted func(id string) bool) {
	if m.dir == "" {
		return
	}
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return // There is none yet.
	}
	for _, e := range entries {
		if !wanted(e.Name()) {
			m.drop(e.Name())
		}
	}
}
