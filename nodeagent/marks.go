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

// marks store the warning and the end of a process, with its cause, before the signal. A restarted
// agent must not take the end for the process's own, nor send the signal again. They need not
// survive the machine, because the process does not.
type marks struct{ dir string }

// mark is what is stored for a process.
type mark struct {
	// cause is why the agent ends the process; "" if it does not.
	cause Cause
	// warned is the time of the warning; zero if there was none.
	warned time.Time
	// reason is why the process is unhealthy.
	reason string
}

func newMarks(stateDir string) marks {
	if stateDir == "" {
		return marks{}
	}
	return marks{filepath.Join(stateDir, watchdog.EndingDir)}
}

func (m marks) set(id string, cause Cause) error { return m.write(id, mark{cause: cause}) }

// write writes the mark of a process, replacing its previous one.
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

// get returns the mark of a process; the zero mark if there is none.
func (m marks) get(id string) mark {
	if m.dir == "" {
		return mark{}
	}
	text, err := watchdog.ReadMark(filepath.Dir(m.dir), id)
	if err != nil {
		return mark{}
	}
	var k mark
	cause, rest, _ := strings.Cut(text, "\n")
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

// unfence drops the mark of a process if it is Fenced: the mark is not of the process that starts
// next. Unavailable: it cannot be dropped.
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

// sweep drops the unwanted marks.
func (m marks) sweep(wanted func(id string) bool) {
	if m.dir == "" {
		return
	}
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return // There is no mark yet.
	}
	for _, e := range entries {
		if !wanted(e.Name()) {
			m.drop(e.Name())
		}
	}
}
