package nodeagent

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/types"
)

// state is what an agent must know after a restart: which lease it had, and up to
// where in which history of the store it has acted.
type state struct {
	// Lease is that of its session, 0 if it has none.
	Lease controlplane.LeaseID `json:"lease"`
	// Epoch is the history, Revision the highest revision seen of it.
	Epoch    string `json:"epoch"`
	Revision int64  `json:"revision"`
	// Deadline is when the session may end: its time to live after the last
	// renewal that succeeded was sent, on the boot clock of BootID.
	Deadline time.Duration `json:"deadline"`
	BootID   string        `json:"bootID"`
	// Keep are the containers that may outlive the session.
	Keep []string `json:"keep,omitempty"`
}

// stateFile keeps a state in a file; without a directory, in memory.
type stateFile struct {
	path string
	// writing is held by who writes the file, mu by who looks at the state: that waits
	// for no disk.
	writing, mu sync.Mutex
	state
}

// openState reads the state below dir. A file that cannot be read is like none: the
// agent then begins a new session, and stops what runs, first.
func openState(dir string) (*stateFile, error) {
	f := &stateFile{}
	if dir == "" {
		return f, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, types.Errorf(types.Precondition, "make state directory: %w", err)
	}
	f.path = filepath.Join(dir, watchdog.SessionFile)
	text, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return nil, types.Errorf(types.Precondition, "read state: %w", err)
	}
	if err := json.Unmarshal(text, &f.state); err != nil {
		f.state = state{}
	}
	return f, nil
}

// get returns the state.
func (f *stateFile) get() state {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state
	s.Keep = slices.Clone(s.Keep)
	return s
}

// saw notes a revision; it is written with the next change.
func (f *stateFile) saw(revision int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Revision = max(f.Revision, revision)
}

// change changes the state and writes it. Only with sync it is certain to outlast
// the machine: what only matters as long as the machine is not restarted need not.
func (f *stateFile) change(sync bool, edit func(*state)) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	edit(&f.state)
	text, err := json.Marshal(f.state)
	f.mu.Unlock()
	if f.path == "" {
		return nil
	}
	if err == nil {
		err = replace(f.path, text, sync)
	}
	if err != nil {
		return types.Errorf(types.Unavailable, "write state: %w", err)
	}
	return nil
}

// replace makes text the content of a file, all of it or nothing.
func replace(path string, text []byte, sync bool) error {
	tmp, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer tmp.Close()
	if _, err := tmp.Write(text); err != nil {
		return err
	}
	if sync {
		if err := tmp.Sync(); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp.Name(), path); err != nil || !sync {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
