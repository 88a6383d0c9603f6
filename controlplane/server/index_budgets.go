package server

import (
	"strconv"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// budget is the usage and the allowance of a namespace.
type budget struct {
	// used is the usage of the namespace's applications: Keys, Bytes and Pending. The specs of its
	// tasks count in Bytes.
	used types.Budget
	// settings are those of an administrator, nil if there are none.
	settings    *types.Namespace
	settingsMod int64
	// admission is nil while the namespace may grow; admissionMod is its ModRevision.
	admission    *types.Admission
	admissionMod int64
	// queued reports whether index.changed lists the namespace.
	queued bool
}

// requeue makes the next pass consider a namespace.
func (s *namespaceState) requeue(x *index) {
	if !s.queued {
		s.queued = true
		x.changed = append(x.changed, s)
	}
}

// measure counts the bytes of a key and its value, in place of the earlier ones.
func (x *index) measure(s *namespaceState, size *int32, e controlplane.Event) {
	if *size != 0 {
		s.used.Keys--
		s.used.Bytes -= int64(*size)
	}
	if *size = 0; !e.Delete {
		*size = int32(len(e.Key) + len(e.Value))
		s.used.Keys++
		s.used.Bytes += int64(*size)
	}
	s.requeue(x)
}

func (x *index) applyNamespace(s *namespaceState, e controlplane.Event) {
	s.settings, s.settingsMod = nil, 0
	if !e.Delete {
		s.settings, s.settingsMod = new(types.Namespace), e.ModRevision
		if types.Decode(e.Value, s.settings) != nil {
			s.settings = nil // the built-in defaults apply
		}
	}
	s.requeue(x)
}

func (x *index) applyNamespaceAdmission(s *namespaceState, e controlplane.Event) {
	s.admission, s.admissionMod = nil, 0
	if !e.Delete {
		s.admission, s.admissionMod = new(types.Admission), e.ModRevision
		if types.Decode(e.Value, s.admission) != nil {
			s.admission = new(types.Admission)
		}
	}
	s.requeue(x)
}

// budgets closes namespaces that have used up a budget, and opens them again.
func (l *pass) budgets() {
	var later []*namespaceState
	defer func() {
		for _, s := range later {
			s.requeue(l.index)
		}
	}()
	for len(l.changed) > 0 && !l.enough() {
		s := l.changed[0]
		l.changed, l.at = rest(l.changed), controlplane.NamespaceKey(s.name)
		s.queued = false
		l.metrics.use(s.name, s.used)
		key, want, is := controlplane.NamespaceAdmissionKey(s.name), s.over(), s.admission
		switch {
		case want == nil && is != nil && len(l.unsized) > 0:
			later = append(later, s) // uncounted specs may be the reason why it was closed
		case want == nil && is != nil:
			l.remove(inBudget, key, s.admissionMod, s)
		case want == nil || l.usage.Alarm:
			// Etcd would refuse to put it, as it refuses all additions.
		case is == nil || want.Budget != is.Budget || s.settingsMod > s.admissionMod: // allowed may have changed
			l.add(overBudget, key, s, unchanged(key, s.admissionMod)).put = want
		}
	}
}

// over returns the admission of a namespace that has used up a budget; nil if it is within its
// budgets. A closed one opens when a twentieth of that budget is free, so that single keys do not
// close and open it.
func (s *namespaceState) over() *types.Admission {
	allowed := s.settings.Allowed()
	for _, b := range []struct {
		name          string
		used, allowed int64
		unit          types.ResourceID
	}{
		{"keys", s.used.Keys, allowed.Keys, ""},
		{"bytes", s.used.Bytes, allowed.Bytes, types.Memory},
		{"pending", s.used.Pending, allowed.Pending, ""},
	} {
		most := b.allowed
		if s.admission != nil && s.admission.Budget == b.name {
			most -= most / 20
		}
		if b.used < most {
			continue
		}
		if b.unit != "" {
			return controlplane.Over(b.name, types.Quantity(b.used).Format(b.unit), types.Quantity(b.allowed).Format(b.unit))
		}
		return controlplane.Over(b.name, strconv.FormatInt(b.used, 10), strconv.FormatInt(b.allowed, 10))
	}
	return nil
}
