package cli

import (
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// writeIsolation writes which limits and rights it has, where they are not the usual ones.
func (t *taskDescription) writeIsolation(s *sheet) {
	if t.spec.Pids > 0 {
		s.line("  processes", "at most "+strconv.Itoa(t.spec.Pids))
	}
	if t.spec.CPULimit == types.CPUNone {
		s.line("  cpu limit", "none: what is requested is its share")
	}
	switch {
	case t.spec.Privileged:
		s.line("  rights", "privileged: those of the node's root")
	case len(t.spec.CapAdd)+len(t.spec.CapDrop) > 0:
		s.line("  capabilities", first(strings.Join(types.CapabilitiesOf(t.spec.CapAdd, t.spec.CapDrop), " "), "none"))
	}
	if t.spec.Socket != types.SocketNamespace {
		s.line("  task socket", t.spec.Socket.String())
	}
	if t.spec.ReadOnlyRoot {
		s.line("  root", "read-only")
	}
}
