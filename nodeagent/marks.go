package nodeagent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/types"
)

// marks remember what the agent has told a process, and why, from before its signal on: an
// agent that restarts in between must not take the end for the process's own, nor tell it
// again. They need not outlast the machine, as the process does not.
type marks struct{ dir string }

// mark is what is remembered of a process.
type mark struct {
	// cause is why it is being ended, empty if it is not.
	cause Cause
	// warned is when it was warned, zero if it was not.
	warned time.Time
	// reason is why it is unhealthy.
	reason string
}

func newMarks(stateDir string) marks {
	if stateDir == "" {
		return marks{}
	}
	return marks{filepath.Join(stateDir, watchdog.EndingDir)}
}

func (m marks) set(id string, cause Cause) error { return m.write(id, mark{cause: cause}) }

// write writes a mark, in place of any other of the process.
func (m marks) write(id string, k mark) error {
	if m.dir == "" {
		return nil
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	text := string(k.cause)
	if !k.warned.IsZero() || k.reason != "" {
		text += "\n" + strconv.FormatInt(nanos(k.warned), 10) + "\n" + k.reason
	}
	return replace(filepath.Join(m.dir, id), []byte(text), false)
}

// get returns the mark of a process, the empty one if there is none.
func (m marks) get(id string) mark {
	if m.dir == "" {
		return mark{}
	}
	text, err := os.ReadFile(filepath.Join(m.dir, id))
	if err != nil {
		return mark{}
	}
	var k mark
	cause, rest, _ := strings.Cut(string(text), "\n")
	warned, reason, _ := strings.Cut(rest, "\n")
	if n, err := strconv.ParseInt(warned, 10, 64); err == nil && n > 0 {
		k.warned = time.Unix(0, n)
	}
	switch cause := Cause(cause); cause {
	case Stopped, Overran, Expired, Fenced, Unhealthy:
		k.cause, k.reason = cause, reason
	}
	return k
}

// unfence drops the mark of a process if it is Fenced: what is to be started was not ended
// yet. Unavailable: it cannot be dropped.
func (m marks) unfence(id string) error {
	if m.get(id).cause != Fenced {
		return nil
	}
	if err := os.Remove(filepath.Join(m.dir, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return types.Errorf(types.Unavailable, "drop what says that %s was ended: %w", id, err)
	}
	return nil
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
