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

// state is what an agent must know after a restart: its lease, and the history and revision of the
// store up to which it has acted.
type state struct {
	// Lease is that of its session; 0 means no session.
	Lease controlplane.LeaseID `json:"lease"`
	// Epoch identifies the history, Revision is the highest revision seen in it.
	Epoch    string `json:"epoch"`
	Revision int64  `json:"revision"`
	// Deadline is when the session may end: its time to live after the last successful renewal was
	// sent, on the boot clock of BootID.
	Deadline time.Duration `json:"deadline"`
	BootID   string        `json:"bootID"`
	// Keep are the containers that may outlive the session.
	Keep []string `json:"keep,omitempty"`
}

// stateFile keeps a state in a file, or in memory without a directory.
type stateFile struct {
	path string
	// writing is held while the file is written, mu while the state is read or changed: readers do
	// not wait for a disk.
	writing, mu sync.Mutex
	state
}

// openState reads the state below dir. An unreadable file counts as no file: the agent then stops
// all containers and begins a new session.
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

// saw records a revision. The next change writes it.
func (f *stateFile) saw(revision int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Revision = max(f.Revision, revision)
}

// change changes the state and writes it. Only with sync the change is certain to survive a crash
// of the machine. A state that matters only until the machine restarts need not.
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

// replace replaces the content of a file by text atomically.
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
