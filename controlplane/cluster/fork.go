package cluster

import "maps"

// Fork returns a view with what this one knows of the nodes, the settings of namespaces, the schedulers and
// leaders, and the admission. It lacks tasks, jobs, reservations and the resources that programs made. Either may
// change afterwards. It copies no values, so a fork of 10,000 nodes takes milliseconds.
func (v *View) Fork() *View {
	f := New()
	f.Revision, f.serials, f.checked = v.Revision, v.serials, v.checked
	f.unread = maps.Clone(v.unread)
	f.Admission = v.Admission
	f.Namespaces, f.Closed = cells(v.Namespaces), cells(v.Closed)
	f.Schedulers, f.Leaders = cells(v.Schedulers), cells(v.Leaders)
	f.Nodes = make(map[string]*Node, len(v.Nodes))
	nodes := make([]Node, 0, len(v.Nodes)) // one allocation
	for name, n := range v.Nodes {
		nodes = append(nodes, Node{Name: n.Name, Serial: n.Serial, Info: n.Info, Alive: n.Alive, Cordon: n.Cordon, Devices: n.Devices, Allocated: n.Allocated})
		f.Nodes[name] = &nodes[len(nodes)-1]
	}
	for rid, p := range v.Pools {
		if !p.Allocated.Absent() {
			f.Pools[rid] = &Pool{ID: rid, Allocated: p.Allocated}
		}
	}
	return f
}

// cells copies the cells of a map.
func cells[K comparable, T any](m map[K]*Cell[T]) map[K]*Cell[T] {
	out := make(map[K]*Cell[T], len(m))
	for k, c := range m {
		of := *c
		out[k] = &of
	}
	return out
}
