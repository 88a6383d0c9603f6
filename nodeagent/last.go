package nodeagent

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// LastLease returns the lease of the last session of an agent with that state directory; 0 if there
// is none.
func LastLease(stateDir string) (controlplane.LeaseID, error) {
	f, err := openState(stateDir)
	if err != nil {
		return 0, err
	}
	return f.get().Lease, nil
}

// FitsSockets returns nil if a directory can hold task sockets: its path is absolute and short
// enough. Invalid otherwise.
func FitsSockets(dir string) error {
	if err := (Config{SocketDir: dir}).validateDirs(); err != nil {
		return types.Errorf(types.Invalid, "%w", err)
	}
	return nil
}
