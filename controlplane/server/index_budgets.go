package server

import (
	"strconv"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// budget is what a namespace uses and what it is allowed.
type budget struct {
	// used counts what the applications of the namespace have: Keys, Bytes and Pending. The
	// specs of its tasks count in Bytes.
	used types.Budget
	// settings is what an administrator has set, nil for nothing.
	settings    *types.Namespace
	settingsMod int64
	// admission is nil while something may be added, admissionMod its ModRevision.
	admission    *types.Admission
	admissionMod int64
	// queued reports whether the namespace is among those changed.
	queued bool
}

// again has a namespace looked at again.
func (s *space) again(x *index) {
	if !s.queued {
		s.queued = true
		x.changed = append(x.changed, s)
	}
}

// measure counts the bytes of a key and its value, in place of those it had before.
func (x *index) measure(s *space, size *int32, e controlplane.Event) {
	if *size != 0 {
		s.used.Keys--
		s.used.Bytes -= int64(*size)
	}
	if *size = 0; !e.Delete {
		*size = int32(len(e.Key) + len(e.Value))
		s.used.Keys++
		s.used.Bytes += int64(*size)
	}
	s.again(x)
}

func (x *index) applyNamespace(s *space, e controlplane.Event) {
	s.settings, s.settingsMod = nil, 0
	if !e.Delete {
		s.settings, s.settingsMod = new(types.Namespace), e.ModRevision
		if types.Decode(e.Value, s.settings) != nil {
			s.settings = nil // the built-in defaults hold
		}
	}
	s.again(x)
}

func (x *index) applyNamespaceAdmission(s *space, e controlplane.Event) {
	s.admission, s.admissionMod = nil, 0
	if !e.Delete {
		s.admission, s.admissionMod = new(types.Admission), e.ModRevision
		if types.Decode(e.Value, s.admission) != nil {
			s.admission = new(types.Admission)
		}
	}
	s.again(x)
}

// budgets closes namespaces that have used up a budget, and opens them again.
func (l *look) budgets() {
	var later []*space
	defer func() {
		for _, s := range later {
			s.again(l.index)
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
			later = append(later, s) // what is not counted yet may be what it was closed for
		case want == nil && is != nil:
			l.remove(inBudget, key, s.admissionMod, s)
		case want == nil || l.usage.Alarm:
			// Etcd would refuse to put it, as it refuses all that is added.
		case is == nil || want.Budget != is.Budget:
			l.add(overBudget, key, s, unchanged(key, s.admissionMod)).put = want
		}
	}
}

// over returns what is to be said of a namespace that has used up a budget; nil is nothing.
// One that is closed is opened when a twentieth of that budget is free, so that it is not
// closed and opened with each key.
func (s *space) over() *types.Admission {
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
