package show

import (
	"strconv"
	"strings"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/types"
)

// writeIsolation writes the limits and rights that differ from the default.
func (t *taskDescription) writeIsolation(s *render.Sheet) {
	if t.spec.Pids > 0 {
		s.Line("  processes", "at most "+strconv.Itoa(t.spec.Pids))
	}
	if t.spec.CPULimit == types.CPUNone {
		s.Line("  cpu limit", "none: what is requested is its share")
	}
	s.Line("  memory limit", sizeText(t.spec.MemoryLimit))
	switch {
	case t.spec.Privileged:
		s.Line("  rights", "privileged: those of the node's root")
	case len(t.spec.CapAdd)+len(t.spec.CapDrop) > 0:
		s.Line("  capabilities", cmdutil.First(strings.Join(types.CapabilitiesOf(t.spec.CapAdd, t.spec.CapDrop), " "), "none"))
	}
	if t.spec.Peers != types.NoPeers {
		s.Line("  peers", t.spec.Peers.String())
	}
	if t.spec.Socket != types.SocketNamespace {
		s.Line("  task socket", t.spec.Socket.String())
	}
	s.Line("  shared memory", sizeText(t.spec.Shm))
	for _, f := range t.spec.Tmpfs {
		s.Line("  in memory", strings.TrimSpace(f.Target+" "+sizeText(f.Size)))
	}
	for _, u := range t.spec.Secrets {
		ways := make([]string, 0, len(u.Env)+1)
		for _, e := range u.Env {
			variable, _, _ := strings.Cut(e, "=")
			ways = append(ways, "$"+variable)
		}
		if u.Dir != "" {
			ways = append(ways, u.Dir)
		}
		s.Line("  secret", u.Name+" in "+strings.Join(ways, ", "))
	}
	for _, u := range t.spec.Ulimits {
		s.Line("  ulimit", u.Name+"="+u.Limits())
	}
	if t.spec.ReadOnlyRoot {
		s.Line("  root", "read-only")
	}
}

// sizeText formats a size, empty if it is the default.
func sizeText(q types.Quantity) string {
	if q == 0 {
		return ""
	}
	return q.Format(types.Memory)
}
