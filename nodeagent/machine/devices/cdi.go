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

// allOfClass is the name under which CDI tools describe all devices of a class together.
const allOfClass = "all"

// described is a device of a CDI specification.
type described struct {
	// class is vendor.com/class, name the name in the class.
	class, name string
	// nodes are its device files, sorted; files are those that must exist when it is injected.
	nodes, files []string
}

// id returns its CDI name.
func (d *described) id() string { return d.class + "=" + d.name }

// described returns the injectable devices, sorted by class and name. It skips unreadable
// specifications, and logs them.
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
				d.files = append(d.files, path) // Its type is read from the file.
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

// ofClass returns the devices of a class, each once: descriptions with the same files are names of
// one device.
func ofClass(specs []described, class string, known []types.Device) []described {
	var of []described
	for _, d := range specs {
		if d.class == class {
			of = append(of, d)
		}
	}
	return once(of, known, (*described).thing)
}

// once keeps one name of each device: the known name, because a task may hold the device by it, or
// else a permanent name. A device for which thing returns "" is always kept.
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

// thing returns the identity of a described device, derived from its device files; "" if it has
// none. Next to the file of a card, one description may have more files than another.
func (d *described) thing() string {
	if isSlice(d) {
		return strings.Join(d.caps(), " ")
	}
	if minor := minorOf(d); minor >= 0 {
		return "/dev/nvidia" + strconv.Itoa(minor)
	}
	return cmp.Or(renderOf(d), strings.Join(d.nodes, " "))
}

// caps returns the files that let a process use a slice.
func (d *described) caps() []string {
	var caps []string
	for _, path := range d.nodes {
		if strings.HasPrefix(path, "/dev/nvidia-caps/") {
			caps = append(caps, path)
		}
	}
	return caps
}

// isUUID reports whether a device keeps its name when others come and go.
func isUUID(name string) bool {
	return strings.HasPrefix(name, "GPU-") || strings.HasPrefix(name, "MIG-")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// readLine returns the first line of a file; "" if it cannot be read.
func readLine(elem ...string) string {
	text, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// oneLine returns the text of an error in one line; "" for nil.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
