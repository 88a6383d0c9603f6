package nodeagent

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// LastLease returns the lease of the session that an agent with that state directory
// had last; 0 if there is none.
func LastLease(stateDir string) (controlplane.LeaseID, error) {
	f, err := openState(stateDir)
	if err != nil {
		return 0, err
	}
	return f.get().Lease, nil
}

// FitsSockets returns nil when a directory can have the sockets of tasks: its path is
// absolute, and short enough. Invalid otherwise.
func FitsSockets(dir string) error {
	if err := (Config{SocketDir: dir}).validateDirs(); err != nil {
		return types.Errorf(types.Invalid, "%w", err)
	}
	return nil
}
