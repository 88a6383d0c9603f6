package types

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/types/action"
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
