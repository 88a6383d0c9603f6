package devices

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/escher-sched/escher/types"
)

// allOfClass is the name by which tools that make specifications describe all devices
// of a class at once.
const allOfClass = "all"

// described is a device as a specification of the Container Device Interface has it.
type described struct {
	// class is vendor.com/class, name what tells it from others of it.
	class, name string
	// nodes are the device files that it brings, sorted; files those of them that have to
	// be there when it is injected.
	nodes, files []string
}

// id is how it is asked for.
func (d *described) id() string { return d.class + "=" + d.name }

// described returns the devices that can be injected, sorted by class and name. A file
// that cannot be read is as if it were not there, and is told of.
func (f *Finder) described() []described {
	dirs := make([]string, len(f.cfg.CDIDirs))
	for i, dir := range f.cfg.CDIDirs {
		dirs[i] = f.cfg.path(dir)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dirs...), cdi.WithAutoRefresh(false))
	if err != nil {
		f.tell("CDI", err.Error())
		return nil
	}
	var wrong []error
	for _, path := range slices.Sorted(maps.Keys(cache.GetErrors())) {
		wrong = append(wrong, cache.GetErrors()[path]...)
	}
	f.tell("CDI", oneLine(errors.Join(wrong...)))
	var all []described
	for _, name := range cache.ListDevices() {
		dev := cache.GetDevice(name)
		if dev == nil || dev.Name == allOfClass {
			continue
		}
		spec := dev.GetSpec()
		d := described{class: spec.GetVendor() + "/" + spec.GetClass(), name: dev.Name}
		for _, n := range dev.ContainerEdits.DeviceNodes {
			path := n.HostPath
			if path == "" {
				path = n.Path
			}
			d.nodes = append(d.nodes, path)
			if n.Major == 0 && n.Type != "p" {
				d.files = append(d.files, path) // What it is, is read from the file.
			}
		}
		slices.Sort(d.nodes)
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b described) int {
		if c := strings.Compare(a.class, b.class); c != 0 {
			return c
		}
		return natural(a.name, b.name)
	})
	return all
}

// ofClass returns the devices of a class, each once: those that bring the same files are
// one of several names.
func ofClass(specs []described, class string, known []types.Device) []described {
	var of []described
	for _, d := range specs {
		if d.class == class {
			of = append(of, d)
		}
	}
	return once(of, known, (*described).thing)
}

// once leaves out all but one name of each thing: it keeps that by which it is known, as
// somebody may hold it by that, else the one that lasts. What thing says "" of is no other's.
func once(specs []described, known []types.Device, thing func(*described) string) []described {
	better := func(a, b *described) bool {
		knownA, knownB := deviceOf(known, a.id()) != nil, deviceOf(known, b.id()) != nil
		if knownA != knownB {
			return knownA
		}
		return isUUID(a.name) && !isUUID(b.name)
	}
	var out []described
	at := make(map[string]int)
	for i := range specs {
		d := &specs[i]
		is := thing(d)
		was, seen := at[is]
		switch {
		case is == "" || !seen:
			at[is] = len(out)
			out = append(out, *d)
		case better(d, &out[was]):
			out[was] = *d
		}
	}
	return out
}

// thing tells what a description is of from what others are of, by its device files;
// empty if it brings none. Beside the file of a card those of one description may be more
// than those of another.
func (d *described) thing() string {
	if isSlice(d) {
		return strings.Join(d.caps(), " ")
	}
	if minor := minorOf(d); minor >= 0 {
		return "/dev/nvidia" + strconv.Itoa(minor)
	}
	return cmp.Or(renderOf(d), strings.Join(d.nodes, " "))
}

// caps are the files that let a process use a slice.
func (d *described) caps() []string {
	var caps []string
	for _, path := range d.nodes {
		if strings.HasPrefix(path, "/dev/nvidia-caps/") {
			caps = append(caps, path)
		}
	}
	return caps
}

// isUUID reports whether a name of a device is one that it keeps when others come and
// go.
func isUUID(name string) bool {
	return strings.HasPrefix(name, "GPU-") || strings.HasPrefix(name, "MIG-")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// readLine returns the first line of a file, empty if it cannot be read.
func readLine(elem ...string) string {
	text, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// oneLine is what an error says, in one line; empty for nil.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
