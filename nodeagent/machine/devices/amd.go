package devices

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/escher-sched/escher/types"
)

// amdGPU is the CDI class of AMD's GPUs, as amd-ctk cdi generate writes it.
const amdGPU = "amd.com/gpu"

// card is an AMD GPU.
type card struct {
	id string
	// dir is its directory in sysfs.
	dir string
}

// findAMD finds the AMD GPUs with a CDI specification. It reads their properties from sysfs, by the
// device file of each: /dev/dri/renderD128.
func (f *Finder) findAMD(specs []described, known []types.Device) []found {
	var all []found
	var cards []card
	for _, d := range ofClass(specs, amdGPU, known) {
		out := found{Device: types.Device{ID: d.id(), Resource: types.GPU, NUMA: unknownNUMA, Model: "AMD GPU"}}
		if dir := f.renderDir(&d); dir != "" {
			cards = append(cards, card{id: d.id(), dir: dir})
			out.Model, out.NUMA = f.amdModel(dir), f.numaOf(dir)
			if n, err := strconv.ParseInt(readLine(dir, "mem_info_vram_total"), 10, 64); err == nil && n > 0 {
				out.MemoryBytes = n
			}
			out.Bus = busOfDir(dir)
		}
		all = append(all, out)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cards = cards
	return all
}

// renderDir returns the sysfs directory of the render node of a description; "" if it has none.
func (f *Finder) renderDir(d *described) string {
	node := renderOf(d)
	if dir := f.cfg.path("sys/class/drm", filepath.Base(node), "device"); node != "" && exists(dir) {
		return dir
	}
	return ""
}

// renderOf returns the render node of a description, such as /dev/dri/renderD128; "" if it has
// none.
func renderOf(d *described) string {
	node := regexp.MustCompile(`^/dev/dri/renderD\d+$`)
	if i := slices.IndexFunc(d.nodes, node.MatchString); i >= 0 {
		return d.nodes[i]
	}
	return ""
}

// busOfDir returns the address of a device of sysfs; "" if it is not on a PCI bus.
func busOfDir(dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	return busOf(filepath.Base(real))
}

// amdModel returns the name of a card, as far as it is known.
func (f *Finder) amdModel(dir string) string {
	if name := readLine(dir, "product_name"); name != "" {
		return name
	}
	if id := readLine(dir, "device"); id != "" {
		return "AMD GPU " + id
	}
	return "AMD GPU"
}
