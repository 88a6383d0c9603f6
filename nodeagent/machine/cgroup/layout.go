package cgroup

import (
	"path"
	"strings"
)

// Driver is who makes the cgroups of containers.
type Driver string

// The drivers. With Cgroupfs, runc makes directories; with Systemd it asks systemd for a
// scope, as it must where systemd rules v2: one writer for one tree.
const (
	Cgroupfs Driver = "cgroupfs"
	Systemd  Driver = "systemd"
)

// Layout is where the cgroups of one group of containers are. The zero value has none.
type Layout struct {
	// Driver makes them.
	Driver Driver
	// Group is what they have in common: the namespace of containerd.
	Group string
}

// Path returns the cgroup of a container as package functions take it:
// /escher/web-1, or with systemd /escher.slice/escher-web-1.scope.
func (l Layout) Path(id string) string {
	if l.Driver == Systemd {
		return path.Join(l.Parent(), l.Group+"-"+id+".scope")
	}
	return path.Join(l.Parent(), id)
}

// Parent returns the cgroup that all of them are right below.
func (l Layout) Parent() string {
	if l.Driver == Systemd {
		return slicePath(l.Group)
	}
	return path.Join("/", l.Group)
}

// ID returns whose cgroup a child of Parent is, by its name; false if it is none of a
// container.
func (l Layout) ID(child string) (id string, ok bool) {
	if l.Driver != Systemd {
		return child, child != ""
	}
	id, scope := strings.CutSuffix(child, ".scope")
	id, ours := strings.CutPrefix(id, l.Group+"-")
	return id, scope && ours && id != ""
}

// OCI returns linux.cgroupsPath for a container, which runc reads by its driver: a
// directory, or slice:prefix:name (runc's docs/systemd.md).
func (l Layout) OCI(id string) string {
	if l.Driver == Systemd {
		return l.Group + ".slice:" + l.Group + ":" + id
	}
	return l.Path(id)
}

// slicePath returns where a slice is: a dash in its name says that it is in another,
// a-b.slice in a.slice (systemd.slice(5)).
func slicePath(group string) string {
	parts := strings.Split(group, "-")
	at := "/"
	for i := range parts {
		at = path.Join(at, strings.Join(parts[:i+1], "-")+".slice")
	}
	return at
}
