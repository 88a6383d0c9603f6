package manifest

import "github.com/escher-sched/escher/types"

// isolate adds the limits and rights of the document to out.
func (s *Spec) isolate(out *types.Spec) {
	out.Pids, out.CPULimit = s.Pids, s.CPULimit
	out.CapAdd, out.CapDrop = s.CapAdd, s.CapDrop
	out.ReadOnlyRoot, out.Privileged, out.Socket = s.ReadOnlyRoot, s.Privileged, s.Socket
	if socket, err := types.ParseSocket(string(s.Socket)); err == nil {
		out.Socket = socket // otherwise Validate reports it
	}
}

// fromIsolation is the inverse of isolate.
func (s *Spec) fromIsolation(from *types.Spec) {
	s.Pids, s.CPULimit = from.Pids, from.CPULimit
	s.CapAdd, s.CapDrop = from.CapAdd, from.CapDrop
	s.ReadOnlyRoot, s.Privileged, s.Socket = from.ReadOnlyRoot, from.Privileged, from.Socket
}
