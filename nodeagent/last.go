package nodeagent

import "github.com/escher-sched/escher/controlplane"

// LastLease returns the lease of the session that an agent with that state directory
// had last; 0 if there is none.
func LastLease(stateDir string) (controlplane.LeaseID, error) {
	f, err := openState(stateDir)
	if err != nil {
		return 0, err
	}
	return f.get().Lease, nil
}
