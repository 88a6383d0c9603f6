package devices

import "strings"

// health returns why a GPU must not be allocated, according to its driver; "" if it may. The texts
// have no counters, so that further errors do not change the reason.
func (g *smiGPU) health() string {
	if word := g.lost(); word != "" {
		return "lost: the driver says \"" + word + "\": reboot the machine, and if that does not help look at its seat and power"
	}
	switch action := strings.ToLower(strings.TrimSpace(g.Recovery)); {
	case strings.Contains(action, "reboot"):
		return "the driver wants a reboot to recover it"
	case strings.Contains(action, "reset") || strings.Contains(action, "drain"):
		return "the driver wants it reset: stop what uses it, then nvidia-smi --gpu-reset -i " + g.UUID
	}
	reset := ": nvidia-smi --gpu-reset -i " + g.UUID
	switch {
	case yes(g.Reset):
		return "the driver wants it reset" + reset
	case yes(g.Remapped.Failure):
		return "its memory has no rows left to replace bad ones: have it replaced"
	case yes(g.Exceeded):
		return "its memory has more uncorrectable errors than it may: have it replaced"
	case yes(g.Remapped.Pending):
		return "bad rows of its memory wait for a reset to be replaced" + reset
	case yes(g.Retired.Pending) || yes(g.Retired.Blacklist):
		return "bad pages of its memory wait for a reset to be retired" + reset
	case g.Volatile.any():
		return "uncorrectable memory errors since it was last reset" + reset
	case g.fabricMissing():
		return "its NVSwitch fabric is not ready: see whether nvidia-fabricmanager runs, and is of the driver's version"
	}
	return ""
}

// lost returns the driver's words if it cannot reach the GPU; "" if it can. It ignores the ERR! of
// failed sensors in other fields.
func (g *smiGPU) lost() string {
	for _, text := range []string{g.UUID, g.Memory.Total, g.Memory.Used, g.Heat, g.ECC, g.Busy} {
		text = strings.Trim(strings.TrimSpace(text), "[]")
		switch strings.ToLower(text) {
		case "gpu is lost", "unknown error", "err!", "gpu requires reset":
			return text
		}
	}
	return ""
}

// any reports whether there was an uncorrectable error.
func (e *smiErrors) any() bool { return some(e.SRAM, e.Parity, e.SECDED, e.DRAM, e.Double) }

// fabricMissing reports whether the GPU is on an NVSwitch that is not set up: programs started on
// it fail. A GPU without one reports N/A.
func (g *smiGPU) fabricMissing() bool {
	switch strings.TrimSpace(g.Fabric.State) {
	case "Not Started", "In Progress":
		return true
	case "Completed":
		status := strings.TrimSpace(g.Fabric.Status)
		return status != "" && status != "Success" && status != "N/A"
	}
	return false
}

func yes(text string) bool { return strings.EqualFold(strings.TrimSpace(text), "yes") }
