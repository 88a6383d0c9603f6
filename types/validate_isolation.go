package types

import (
	"slices"
	"strings"
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

// ParseCapability returns the name of a capability in the form of a spec: NET_ADMIN for NET_ADMIN,
// net_admin or CAP_NET_ADMIN. field names it in errors. Invalid: there is no such capability.
func ParseCapability(field, text string) (string, error) {
	if !knownCapability(text) {
		return "", Errorf(Invalid, "%s: %q is not a capability: write a name of capabilities(7), such as NET_BIND_SERVICE", field, shorten(text))
	}
	return capability(text), nil
}
