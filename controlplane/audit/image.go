package audit

// imagePinned validates ImagePinned of a change of a task: the image by digest that
// a report of it first named is in its status before anything is bound again, and
// stays there; and each of its attempts is bound to that one.
func (s *state) imagePinned(t *task, found finder) {
	was, is := t.status.before(s.revision), t.status.V
	if was != nil && was.Image != "" && is != nil && is.Image != was.Image {
		found(t.object(), "ran %s, and is to run %q", was.Image, is.Image)
	}
	for _, b := range t.bindings {
		s.imageOf(b, found)
	}
}

// imageOf validates ImagePinned of one attempt.
func (s *state) imageOf(b *binding, found finder) {
	st, report := b.of.status.V, b.report.before(s.revision)
	pin := ""
	if st != nil {
		pin = st.Image
	}
	switch {
	case b.info.created(s.revision) && b.info.V.Image != pin:
		found(b.of.object(), "%s is to run %q, and its status says %q", b, b.info.V.Image, pin)
	case b.info.deleted(s.revision) && report != nil && report.Image != "" && report.Image != pin:
		found(b.of.object(), "%s ran %s, and its status says %q", b, report.Image, pin)
	}
	if b.info.V == nil || b.report.V == nil || b.report.V.Image == "" {
		return
	}
	if want := b.info.V.Image; want != "" && b.report.V.Image != want {
		found(b.of.object(), "%s runs %s, and is bound to run %s", b, b.report.V.Image, want)
	}
	if was := b.report.before(s.revision); was != nil && was.Image != "" && was.Image != b.report.V.Image {
		found(b.of.object(), "%s ran %s, and runs %s", b, was.Image, b.report.V.Image)
	}
}
