package devices

import "strings"

// health says why a GPU must not be given out, as its driver tells; empty if it may. The
// texts hold no numbers that count: who reads that a device is unhealthy is not told again with
// each further error.
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

// lost returns with what words the driver says that it does not reach the GPU, empty if
// it does. A sensor that fails says ERR! in a field of its own, which is not looked at.
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

// any reports whether there was an error that could not be corrected.
func (e *smiErrors) any() bool { return some(e.SRAM, e.Parity, e.SECDED, e.DRAM, e.Double) }

// fabricMissing reports whether the GPU is one of an NVSwitch that nobody has set up: what
// is started on it then fails. A GPU of none says N/A.
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
