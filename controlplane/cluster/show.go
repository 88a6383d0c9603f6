package cluster

// Show returns the state of a namespace, from a view with no other namespaces. It has no read set,
// so no change can be conditional on it.
func (v *View) Show(ns string) *State {
	r := reader{ns: ns, revision: v.Revision, view: v}
	s := r.state()
	s.view = nil
	return s
}
