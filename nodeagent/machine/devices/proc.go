package devices

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// unknownNUMA is the NUMA node of a device that is near to no node, or whose node is unknown.
const unknownNUMA = -1

// procGPU is a GPU as the kernel module of NVIDIA's driver lists it, even if nvidia-smi hangs.
type procGPU struct {
	bus, uuid, model string
	// minor is the number of its device file: /dev/nvidia0.
	minor int
	// numa is its NUMA node.
	numa int
}

// procGPUs reads /proc/driver/nvidia/gpus/*/information. It skips GPUs that the driver was told to
// exclude.
func (f *Finder) procGPUs() []procGPU {
	files, err := filepath.Glob(f.cfg.path("proc/driver/nvidia/gpus/*/information"))
	if err != nil {
		return nil // The pattern is valid.
	}
	var all []procGPU
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // It has just vanished.
		}
		g := procGPU{bus: busOf(filepath.Base(filepath.Dir(file))), minor: -1}
		excluded := false
		for _, line := range strings.Split(string(text), "\n") {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimSpace(value)
			switch strings.TrimSpace(name) {
			case "Model":
				g.model = value
			case "GPU UUID":
				g.uuid = value
			case "Device Minor":
				if n, err := strconv.Atoi(value); err == nil {
					g.minor = n
				}
			case "GPU Excluded", "Blacklisted", "GPU Blacklisted":
				excluded = yes(value)
			}
		}
		if strings.Contains(g.uuid, "?") {
			g.uuid = "" // The driver does not know it before the first start of the GPU.
		}
		if !excluded && g.bus != "" {
			g.numa = f.numaOf(f.cfg.path("sys/bus/pci/devices", g.bus))
			all = append(all, g)
		}
	}
	return all
}

// numaOf returns the NUMA node of a device of sysfs. A machine with one node does not report it.
func (f *Finder) numaOf(dir string) int {
	n, err := strconv.Atoi(readLine(dir, "numa_node"))
	switch {
	case err == nil && n >= 0:
		return n
	case !exists(f.cfg.path("sys/devices/system/node/node1")):
		return 0
	}
	return unknownNUMA
}
