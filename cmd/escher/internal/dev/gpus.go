//go:build linux

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

// cdi returns the directory with the description of simulated devices.
func (d Dir) cdi() string { return d.path("cdi") }

// gpus describes the simulated GPUs of all nodes, so that tasks with them can start.
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

// devices returns the devices of a node, nil for none.
func (c *running) devices(node string) nodeagent.DeviceSource {
	if c.cfg.GPUs.Count == 0 {
		return nil
	}
	return devices.Fixed(c.cfg.GPUs.Devices(node))
}

// cdiDirs returns the directories with descriptions of devices.
func (c *running) cdiDirs() []string {
	return append(slices.Clone(cdi.DefaultSpecDirs), c.cfg.Dir.cdi())
}
