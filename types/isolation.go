package types

import (
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types/action"
	"github.com/escher-sched/escher/types/wire"
)

// CPULimit is the limit of cpu beyond the task's request. In any case, the requests are the tasks'
// shares when a node has too little for all.
type CPULimit string

// The limits. With CPUHard a task never gets more than it requests. With CPUNone it may also use
// what others leave.
const (
	CPUHard CPULimit = ""
	CPUNone CPULimit = "none"
)

// AllCapabilities means every capability in Spec.CapDrop.
const AllCapabilities = "ALL"

// Permits are resources for rights that are dangerous to a node. A node has them without bound if
// its agent allows the right. A task whose spec needs the right requests the permit (Spec.Implied),
// so that it is placed only there.
const (
	// PermitPrivileged permits privileged containers.
	PermitPrivileged ResourceID = permits + "privileged"

	permits    = "escher.io/"
	permitsCap = permits + "cap-"
)

// PermitCapability returns the resource that permits a capability, such as
// escher.io/cap-NET_ADMIN for NET_ADMIN.
func PermitCapability(name string) ResourceID { return ResourceID(permitsCap + name) }

// Permit returns the setting of an agent that the permit requires, such as the permission to add
// NET_ADMIN; ok is false for other resources.
func (id ResourceID) Permit() (setting action.Action, ok bool) {
	if id == PermitPrivileged {
		return action.AllowPrivileged.Of(), true
	}
	name, ok := strings.CutPrefix(string(id), permitsCap)
	return action.AllowCapability.Of(name), ok
}

// capabilities lists those of Linux 6.18 (capabilities(7)), without CAP_.
var capabilities = [...]string{
	"AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "CHOWN", "DAC_OVERRIDE",
	"DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN",
	"MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW", "PERFMON", "SETFCAP", "SETGID",
	"SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT",
	"SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "WAKE_ALARM",
}

// Capabilities returns every capability, sorted.
func Capabilities() []string { return slices.Clone(capabilities[:]) }

// DefaultCapabilities returns the capabilities of every container whose spec does not drop them,
// sorted. Ordinary images need them to set up their files and become another user.
func DefaultCapabilities() []string {
	return []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID", "SYS_CHROOT"}
}

// permitted reports whether every node grants the capability. Besides the defaults these are
// Docker's, without two. NET_RAW reads the traffic of others on the host's network. MKNOD leaves
// device nodes in mounted directories of the host.
func permitted(name string) bool {
	return slices.Contains(DefaultCapabilities(), name) || slices.Contains([]string{"AUDIT_WRITE", "SETFCAP", "SETPCAP"}, name)
}

// CapabilitiesOf returns the capabilities of an unprivileged container, sorted: the defaults
// without drop, and add.
func CapabilitiesOf(add, drop []string) []string {
	var has []string
	if !slices.Contains(drop, AllCapabilities) {
		has = slices.DeleteFunc(DefaultCapabilities(), func(name string) bool { return slices.Contains(drop, name) })
	}
	has = append(has, add...)
	slices.Sort(has)
	return slices.Compact(has)
}

// Permits returns the permits that a node needs to run the spec.
func (s *Spec) Permits() []ResourceID {
	var ids []ResourceID
	if s.Privileged {
		ids = append(ids, PermitPrivileged)
	}
	for _, name := range s.CapAdd {
		if !permitted(name) {
			ids = append(ids, PermitCapability(name))
		}
	}
	return ids
}

// Unlimited is a limit that does not limit.
const Unlimited = -1

// Ulimit limits a resource of each process of a container: see setrlimit(2).
type Ulimit struct {
	// Name is one of Ulimits.
	Name string
	// Soft is the limit, and Hard the most to which a process may raise it; Unlimited means none.
	Soft, Hard int64
}

func (u *Ulimit) fields(w *wire.Pass) {
	wire.Text(w, 2, &u.Name)
	wire.Integer(w, 3, &u.Soft)
	wire.Integer(w, 4, &u.Hard)
}

// Ulimits returns the names of all limits, sorted.
func Ulimits() []string {
	return []string{
		"core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack",
	}
}

// MaxOpenFiles is the largest number of open files that a Linux can be set to.
const MaxOpenFiles = 1 << 30

// ParseLimits reads SOFT[:HARD]; without HARD both are the same.
func ParseLimits(text string) (soft, hard int64, err error) {
	first, second, two := strings.Cut(text, ":")
	if soft, err = parseLimit(first); err != nil || !two {
		return soft, soft, err
	}
	hard, err = parseLimit(second)
	return soft, hard, err
}

func parseLimit(text string) (int64, error) {
	if text == "unlimited" {
		return Unlimited, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < Unlimited {
		return 0, Errorf(Invalid, "%q is not a limit: write a whole number, or -1 for none", shorten(text))
	}
	return n, nil
}

// Limits formats the limits as ParseLimits reads them.
func (u *Ulimit) Limits() string {
	if u.Soft == u.Hard {
		return strconv.FormatInt(u.Soft, 10)
	}
	return strconv.FormatInt(u.Soft, 10) + ":" + strconv.FormatInt(u.Hard, 10)
}

// Validate checks a limit; at names it in errors.
func (u *Ulimit) Validate(at string) error {
	at += "." + shorten(u.Name)
	var errs []error
	if !slices.Contains(Ulimits(), u.Name) {
		errs = append(errs, Errorf(Invalid, "%s: is not a limit of processes: use %s", at, strings.Join(Ulimits(), ", ")))
	}
	for _, n := range []int64{u.Soft, u.Hard} {
		if n < Unlimited || n > MaxBudget {
			errs = append(errs, Errorf(Invalid, "%s: %d is out of range: give 0 to %d, or -1 for no limit", at, n, int64(MaxBudget)))
		}
	}
	switch {
	case len(errs) > 0:
	case u.Hard != Unlimited && (u.Soft > u.Hard || u.Soft == Unlimited):
		errs = append(errs, Errorf(Invalid, "%s: the soft limit of %s is above the hard one: swap them, or give one", at, u.Limits()))
	case u.Name == "nofile" && (u.Hard == Unlimited || u.Hard > MaxOpenFiles):
		errs = append(errs, Errorf(Invalid, "%s: Linux has no room for so many open files: give at most %d, and no more than fs.nr_open of the node", at, MaxOpenFiles))
	}
	return joinInvalid(errs)
}

// validateUlimits checks the limits of a spec.
func (s *Spec) validateUlimits() error {
	var errs []error
	seen := make(map[string]bool)
	for _, u := range s.Ulimits {
		errs = append(errs, u.Validate("ulimits"))
		if seen[u.Name] {
			errs = append(errs, Errorf(Invalid, "ulimits.%s: is given twice: drop one", shorten(u.Name)))
		}
		seen[u.Name] = true
		if (u.Name == "nice" || u.Name == "rtprio") && !s.Privileged && !slices.Contains(s.CapAdd, "SYS_NICE") {
			errs = append(errs, Errorf(Invalid, "ulimits.%s: takes the processor from other tasks: add the capability SYS_NICE too, on nodes that allow it", u.Name))
		}
	}
	return joinInvalid(nonNil(errs))
}
