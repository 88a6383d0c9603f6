package audit

// imagePinned validates ImagePinned for a change of a task. The first reported image by digest is
// in its status before the next bind, and stays there. Every later attempt is bound to it.
func (s *state) imagePinned(t *task, found finder) {
	was, is := t.status.before(s.revision), t.status.V
	if was != nil && was.Image != "" && is != nil && is.Image != was.Image {
		found(t.object(), "ran %s, but must now run %q", was.Image, is.Image)
	}
	for _, b := range t.bindings {
		s.imageOf(b, found)
	}
}

// imageOf validates ImagePinned for one attempt.
func (s *state) imageOf(b *binding, found finder) {
	st, report := b.of.status.V, b.report.before(s.revision)
	pin := ""
	if st != nil {
		pin = st.Image
	}
	switch {
	case b.info.created(s.revision) && b.info.V.Image != pin:
		found(b.of.object(), "%s must run %q, but its status says %q", b, b.info.V.Image, pin)
	case b.info.deleted(s.revision) && report != nil && report.Image != "" && report.Image != pin:
		found(b.of.object(), "%s ran %s, but its status says %q", b, report.Image, pin)
	}
	if b.info.V == nil || b.report.V == nil || b.report.V.Image == "" {
		return
	}
	if want := b.info.V.Image; want != "" && b.report.V.Image != want {
		found(b.of.object(), "%s runs %s, but is bound to run %s", b, b.report.V.Image, want)
	}
	if was := b.report.before(s.revision); was != nil && was.Image != "" && was.Image != b.report.V.Image {
		found(b.of.object(), "%s ran %s, but now runs %s", b, was.Image, b.report.V.Image)
	}
}
