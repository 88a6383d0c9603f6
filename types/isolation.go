package types

import (
	"slices"
	"strings"
)

// CPULimit says what a task may use of cpu beside what it requests. Whatever it is,
// what tasks request is their share when a node has too little for all.
type CPULimit string

// The limits. With CPUHard a task never gets more than it requests, with CPUNone it
// takes what others leave, too.
const (
	CPUHard CPULimit = ""
	CPUNone CPULimit = "none"
)

// AllCapabilities stands, in Spec.CapDrop, for each.
const AllCapabilities = "ALL"

// The resources that permit what is dangerous to a node: it has them without bound if
// its agent is configured to, and a task whose spec asks for such a thing requests them
// (Spec.Implied), so that it is placed nowhere else.
const (
	// PermitPrivileged permits privileged containers.
	PermitPrivileged ResourceID = permits + "privileged"

	permits    = "escher.io/"
	permitsCap = permits + "cap-"
)

// PermitCapability returns the resource that permits a capability, such as
// escher.io/cap-NET_ADMIN for NET_ADMIN.
func PermitCapability(name string) ResourceID { return ResourceID(permitsCap + name) }

// Permit returns what the resource permits, as the agent's flag says it, such as
// --allow-cap NET_ADMIN; false if it is none of those.
func (id ResourceID) Permit() (flag string, ok bool) {
	if id == PermitPrivileged {
		return "--allow-privileged", true
	}
	name, ok := strings.CutPrefix(string(id), permitsCap)
	return "--allow-cap " + name, ok
}

// capabilities are those of Linux 6.18 (capabilities(7)), without CAP_.
var capabilities = [...]string{
	"AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "CHOWN", "DAC_OVERRIDE",
	"DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN",
	"MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW", "PERFMON", "SETFCAP", "SETGID",
	"SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT",
	"SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "WAKE_ALARM",
}

// Capabilities returns all that there are, sorted.
func Capabilities() []string { return slices.Clone(capabilities[:]) }

// DefaultCapabilities returns those that every container has unless its spec drops
// them, sorted: what ordinary images need to set up their files and become another
// user, and no more.
func DefaultCapabilities() []string {
	return []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID", "SYS_CHROOT"}
}

// permitted reports whether every node lets a task have the capability. Beyond the
// default ones these are what Docker gives too, without NET_RAW, which reads what
// others send on the network of the host, and MKNOD, which leaves device nodes in
// mounted directories of the host.
func permitted(name string) bool {
	return slices.Contains(DefaultCapabilities(), name) || slices.Contains([]string{"AUDIT_WRITE", "SETFCAP", "SETPCAP"}, name)
}

// CapabilitiesOf returns those of a container that is not privileged, sorted: the default
// ones, less what is dropped, with what is added.
func CapabilitiesOf(add, drop []string) []string {
	var has []string
	if !slices.Contains(drop, AllCapabilities) {
		has = slices.DeleteFunc(DefaultCapabilities(), func(name string) bool { return slices.Contains(drop, name) })
	}
	has = append(has, add...)
	slices.Sort(has)
	return slices.Compact(has)
}

// Permits returns what a node has to permit for the spec to be run there.
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
