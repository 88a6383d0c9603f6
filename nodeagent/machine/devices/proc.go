package devices

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// unknownNUMA is the NUMA node of what is near to no one more than to another, or of
// which it is not known.
const unknownNUMA = -1

// procGPU is a GPU as the kernel module of NVIDIA's driver lists it. It does so also where
// nvidia-smi hangs.
type procGPU struct {
	bus, uuid, model string
	// minor is that of its device file: /dev/nvidia0.
	minor int
	// numa is the node of memory that it is near to.
	numa int
}

// procGPUs reads /proc/driver/nvidia/gpus/*/information. GPUs that the driver was told to
// leave alone are left out.
func (f *Finder) procGPUs() []procGPU {
	files, err := filepath.Glob(f.cfg.path("proc/driver/nvidia/gpus/*/information"))
	if err != nil {
		return nil // The pattern is right.
	}
	var all []procGPU
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // It has just gone.
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
			g.uuid = "" // Before it is started first, the driver does not know it.
		}
		if !excluded && g.bus != "" {
			g.numa = f.numaOf(f.cfg.path("sys/bus/pci/devices", g.bus))
			all = append(all, g)
		}
	}
	return all
}

// numaOf returns the NUMA node of a device of sysfs. A machine that has one node says of
// none where it is.
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
