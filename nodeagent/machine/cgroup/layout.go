package cgroup

import (
	"path"
	"strings"
)

// Driver selects what makes the cgroups of containers.
type Driver string

// The drivers. With Cgroupfs, runc makes directories. With Systemd, it asks systemd for a scope,
// which is required where systemd manages v2: a tree has one writer.
const (
	Cgroupfs Driver = "cgroupfs"
	Systemd  Driver = "systemd"
)

// Layout is the location of the cgroups of one group of containers. The zero value has none.
type Layout struct {
	// Driver makes the cgroups.
	Driver Driver
	// Group is their common name: the containerd namespace.
	Group string
}

// Path returns the cgroup of a container as a path of this package: /escher/web-1, or with systemd
// /escher.slice/escher-web-1.scope.
func (l Layout) Path(id string) string {
	if l.Driver == Systemd {
		return path.Join(l.Parent(), l.Group+"-"+id+".scope")
	}
	return path.Join(l.Parent(), id)
}

// Parent returns the parent of all these cgroups.
func (l Layout) Parent() string {
	if l.Driver == Systemd {
		return slicePath(l.Group)
	}
	return path.Join("/", l.Group)
}

// ID returns the id of the container of a child of Parent; ok is false if the child is not a
// container's.
func (l Layout) ID(child string) (id string, ok bool) {
	if l.Driver != Systemd {
		return child, child != ""
	}
	id, scope := strings.CutSuffix(child, ".scope")
	id, ours := strings.CutPrefix(id, l.Group+"-")
	return id, scope && ours && id != ""
}

// OCI returns linux.cgroupsPath for a container. runc reads it according to its driver: a
// directory, or slice:prefix:name (runc's docs/systemd.md).
func (l Layout) OCI(id string) string {
	if l.Driver == Systemd {
		return l.Group + ".slice:" + l.Group + ":" + id
	}
	return l.Path(id)
}

// slicePath returns the path of a slice: a dash in its name means nesting, such as a-b.slice in
// a.slice (systemd.slice(5)).
func slicePath(group string) string {
	parts := strings.Split(group, "-")
	at := "/"
	for i := range parts {
		at = path.Join(at, strings.Join(parts[:i+1], "-")+".slice")
	}
	return at
}
