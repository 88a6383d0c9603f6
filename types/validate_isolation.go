package types

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types/wire"
)

// validateIsolation checks the limits and rights of a spec.
func (s *Spec) validateIsolation() error {
	errs := []error{validateCapabilities("capAdd", s.CapAdd), validateCapabilities("capDrop", s.CapDrop), s.Socket.validate()}
	if s.Pids < 0 || s.Pids > MaxPids {
		errs = append(errs, Errorf(Invalid, "pids: %d is out of range: give 1 to %d processes, or leave it out for the node's default", s.Pids, MaxPids))
	}
	if s.CPULimit != CPUHard && s.CPULimit != CPUNone {
		errs = append(errs, Errorf(Invalid, "cpuLimit: %q is unknown: use none, or leave it out for the requested amount", shorten(string(s.CPULimit))))
	}
	errs = append(errs, validateSizeOf("memoryLimit", s.MemoryLimit))
	for _, name := range s.CapAdd {
		switch {
		case name == AllCapabilities:
			errs = append(errs, Errorf(Invalid, "capAdd: ALL is more than any program needs: name each, or use privileged"))
		case slices.Contains(s.CapDrop, name):
			errs = append(errs, Errorf(Invalid, "capAdd: %q is in capDrop too: leave it out of one of them", shorten(name)))
		}
	}
	if s.Privileged && len(s.CapAdd)+len(s.CapDrop) > 0 {
		errs = append(errs, Errorf(Invalid, "privileged: has every capability, and capAdd or capDrop is given: drop one of them"))
	}
	return joinInvalid(nonNil(errs))
}

func validateCapabilities(field string, names []string) error {
	var errs []error
	for i, name := range names {
		_, known := slices.BinarySearch(capabilities[:], name)
		switch {
		case slices.Contains(names[:i], name):
			errs = append(errs, Errorf(Invalid, "%s: %q is given twice: drop one", index(field, i), shorten(name)))
		case known || name == AllCapabilities:
		case knownCapability(name):
			errs = append(errs, Errorf(Invalid, "%s: %q has another spelling here: write %s", index(field, i), shorten(name), capability(name)))
		default:
			errs = append(errs, Errorf(Invalid, "%s: %q is not a capability: write a name of capabilities(7) without CAP_, such as NET_BIND_SERVICE", index(field, i), shorten(name)))
		}
	}
	return joinInvalid(nonNil(errs))
}

// capability returns the name of a capability in the form of a spec.
func capability(text string) string { return strings.TrimPrefix(strings.ToUpper(text), "CAP_") }

func knownCapability(text string) bool {
	_, known := slices.BinarySearch(capabilities[:], capability(text))
	return known || capability(text) == AllCapabilities
}

// SharedMemory is the path of the shared memory of a container.
const SharedMemory = "/dev/shm"

// Tmpfs is a file system in memory. Its content counts as memory of the task.
type Tmpfs struct {
	// Target is the absolute path in the container.
	Target string
	// Size limits it, in bytes; 0 means MemoryShare.
	Size Quantity
}

func (f *Tmpfs) fields(w *wire.Pass) {
	wire.Text(w, 2, &f.Target)
	wire.Integer(w, 3, &f.Size)
}

// MemoryShare returns the default size of the shared memory, and of a file system in memory, in a
// container with that much memory: half of it, or 64 MiB if it has no limit.
func MemoryShare(memory Quantity) Quantity {
	if memory <= 0 {
		return 64 << 20
	}
	return max(1, memory/2)
}

// validateMemory checks the shared memory, the file systems in memory, and the directories of secrets.
func (s *Spec) validateMemory() error {
	errs := []error{validateSizeOf("shm", s.Shm)}
	mounted := make(map[string]bool)
	for _, m := range s.Mounts {
		mounted[m.Target] = true
	}
	for i, f := range s.Tmpfs {
		at := index("tmpfs", i)
		errs = append(errs, validatePath(at+".target", f.Target), validateSizeOf(at+".size", f.Size))
		switch {
		case f.Target == SharedMemory:
			errs = append(errs, Errorf(Invalid, "%s.target: %s is the shared memory: set its size with shm", at, SharedMemory))
		case f.Target == path.Dir(SocketDir):
			errs = append(errs, Errorf(Invalid, "%s.target: %s is in memory in every container: leave it out", at, f.Target))
		default:
			errs = append(errs, validateTarget(at+".target", f.Target))
		}
		if mounted[f.Target] {
			errs = append(errs, Errorf(Invalid, "%s.target: %q is mounted twice: choose another", at, shorten(f.Target)))
		}
		mounted[f.Target] = true
	}
	mounted[SharedMemory] = true
	if s.Workdir != nil {
		mounted[s.Workdir.Target] = true
	}
	for i, u := range s.Secrets {
		at := index("secrets", i) + ".dir"
		if u.Dir == "" {
			continue
		}
		errs = append(errs, validatePath(at, u.Dir), validateTarget(at, u.Dir))
		if mounted[u.Dir] {
			errs = append(errs, Errorf(Invalid, "%s: %q is mounted twice: choose another", at, shorten(u.Dir)))
		}
		mounted[u.Dir] = true
	}
	for _, target := range slices.Sorted(maps.Keys(mounted)) {
		for i, u := range s.Secrets {
			if u.Dir != "" && strings.HasPrefix(target, u.Dir+"/") { // a value could not become a file there
				errs = append(errs, Errorf(Invalid, "%s.dir: %q contains the target %q: choose a directory of its own", index("secrets", i), shorten(u.Dir), shorten(target)))
			}
		}
	}
	return joinInvalid(nonNil(errs))
}

func validateSizeOf(field string, q Quantity) error {
	if q < 0 || q > MaxQuantity {
		return Errorf(Invalid, "%s: %d bytes is not a size: give more than 0, such as 64Mi, or leave it out", field, q)
	}
	return nil
}

// ValidateMemory checks that the shared memory and the file systems in memory of a spec fit the
// memory that the task requests, in each of its alternatives.
func (t *Task) ValidateMemory(s *Spec) error {
	var errs []error
	for _, memory := range t.memories() {
		if s.MemoryLimit > 0 && s.MemoryLimit < memory {
			errs = append(errs, Errorf(Invalid, "memoryLimit: %s is less than the memory that the task requests, %s: raise it, or leave it out",
				s.MemoryLimit.Format(Memory), memory.Format(Memory)))
		}
		errs = append(errs, s.FitsMemory(memory))
	}
	errs = slices.CompactFunc(nonNil(errs), func(a, b error) bool { return a.Error() == b.Error() })
	return joinInvalid(errs)
}

// memories returns the memory of each request vector.
func (t *Task) memories() []Quantity {
	memory := t.Requests.unscoped(string(Memory))
	if len(t.Alternatives) == 0 {
		return []Quantity{memory}
	}
	var all []Quantity
	for _, a := range t.Alternatives {
		all = append(all, memory+a.Requests.unscoped(string(Memory)))
	}
	return all
}

// MemoryOf returns the most memory of a container that requests so much; 0 means no limit. A nil spec,
// which is not known yet, has no limit of its own.
func (s *Spec) MemoryOf(requested Quantity) Quantity {
	if s == nil || s.MemoryLimit == 0 {
		return requested
	}
	return max(s.MemoryLimit, requested) // its request may have grown
}

// FitsMemory checks that the shared memory and each file system in memory fit a container that requests
// so much memory.
func (s *Spec) FitsMemory(requested Quantity) error {
	memory := s.MemoryOf(requested)
	if memory <= 0 {
		return nil
	}
	var errs []error
	check := func(field string, size Quantity) {
		if size > memory {
			errs = append(errs, Errorf(Invalid, "%s: %s is larger than the memory of the task, which is %s: make it smaller, or request more memory",
				field, size.Format(Memory), memory.Format(Memory)))
		}
	}
	check("shm", s.Shm)
	for i, f := range s.Tmpfs {
		check(index("tmpfs", i)+".size", f.Size)
	}
	return joinInvalid(errs)
}
