package cluster

// Show returns the state as a view of one namespace has it: of a view that was given
// nothing of others. It says nothing of what was read, so no change can be made
// conditional on it.
func (v *View) Show(ns string) *State {
	r := reader{ns: ns, revision: v.Revision, view: v}
	s := r.state()
	s.view = nil
	return s
}
