//go:build linux

package agent

import (
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/types"
)

// The ways to find GPUs.
const (
	autoGPUs = "auto"
	noGPUs   = "none"
)

// agentDeviceFlags say which devices a node offers.
type agentDeviceFlags struct {
	gpus         string
	named, specs []string
	smi          string
	every        time.Duration
}

func (g *agentDeviceFlags) Add(set *pflag.FlagSet) {
	set.StringVar(&g.gpus, "gpus", autoGPUs, "GPUs to give out: auto, those of NVIDIA and AMD that a CDI specification describes, or none")
	set.StringArrayVar(&g.named, "device", nil, "other devices to give out, by their names in the CDI: acme.com/fpga=card0, acme.com/fpga=* for all of a class, and intel.com/gpu=*,as=gpu to count them as gpu; repeat for several")
	set.StringArrayVar(&g.specs, "cdi-dir", nil, "directory of CDI specifications; repeat for several, the last one counts most; default: /etc/cdi and /var/run/cdi")
	set.StringVar(&g.smi, "nvidia-smi", "", "path of nvidia-smi; default: the one in PATH")
	set.DurationVar(&g.every, "device-interval", nodeagent.DefaultProbeEvery, "how often devices and their health are probed")
}

// config returns where to find the devices.
func (g *agentDeviceFlags) config() (devices.Config, error) {
	cfg := devices.Config{NoGPUs: g.gpus == noGPUs, CDIDirs: g.specs, NvidiaSMI: g.smi}
	if g.gpus != autoGPUs && g.gpus != noGPUs {
		return cfg, types.Errorf(types.Invalid, "gpus: %q is unknown: use auto or none; escher dev simulates some", g.gpus)
	}
	for _, dir := range g.specs {
		if !filepath.IsAbs(dir) {
			return cfg, types.Errorf(types.Invalid, "cdi-dir: %q is not absolute: give the full path", dir)
		}
	}
	if g.smi != "" && !filepath.IsAbs(g.smi) {
		return cfg, types.Errorf(types.Invalid, "nvidia-smi: %q is not absolute: give the full path", g.smi)
	}
	for _, text := range g.named {
		named, err := devices.ParseNamed(text)
		if err != nil {
			return cfg, err
		}
		cfg.Named = append(cfg.Named, named)
	}
	return cfg, nil
}
