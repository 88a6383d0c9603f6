package dev

import (
	"encoding/json"
	"os"
	"slices"

	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/types"
)

// cdi returns where devices are described that there are not.
func (d Dir) cdi() string { return d.path("cdi") }

// gpus describes the simulated GPUs of all nodes, so that tasks can be started with
// them.
func (c *running) gpus() error {
	text, err := json.Marshal(c.cfg.GPUs.Spec(c.cfg.nodes()))
	if err == nil {
		err = os.MkdirAll(c.cfg.Dir.cdi(), 0o700)
	}
	if err == nil {
		err = replaceFile(c.cfg.Dir.path("cdi", "simulated.json"), text)
	}
	if err != nil {
		return types.Errorf(types.Precondition, "describe simulated GPUs: %w", err)
	}
	return nil
}

// devices returns what devices a node has, nil for none.
func (c *running) devices(node string) nodeagent.DeviceSource {
	if c.cfg.GPUs.Count == 0 {
		return nil
	}
	return devices.Fixed(c.cfg.GPUs.Devices(node))
}

// cdiDirs returns where devices are described.
func (c *running) cdiDirs() []string {
	return append(slices.Clone(cdi.DefaultSpecDirs), c.cfg.Dir.cdi())
}
