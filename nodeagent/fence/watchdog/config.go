//go:build linux

package watchdog

import (
	"encoding/json"
	"path/filepath"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

// Subcommand is the program's first argument for a watchdog, before Config.Arg.
const Subcommand = "watchdog"

// Config configures a watchdog.
type Config struct {
	// Dir has its lock and its log. There is one watchdog per directory, and the next one takes
	// over from it.
	Dir   string `json:"dir"`
	Nodes []Node `json:"nodes"`
}

// Node is one node of this machine.
type Node struct {
	Name string `json:"name"`
	// StateDir is the state directory of its agent.
	StateDir string `json:"stateDir"`
	// Cgroups is the layout of its containers' cgroups. Shared reports whether other nodes use it
	// too: then the watchdog kills only what the node's log lists as started.
	Cgroups cgroup.Layout `json:"cgroups"`
	Shared  bool          `json:"shared,omitempty"`
	// Root is the mount point of cgroups; "" means cgroup.DefaultRoot.
	Root string `json:"root,omitempty"`
}

// Arg returns c as the argument after Subcommand.
func (c Config) Arg() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // Config can always be encoded.
	}
	return string(text)
}

// parseArg is the inverse of Arg. Invalid: arg is not such an argument.
func parseArg(arg string) (Config, error) {
	var c Config
	if err := json.Unmarshal([]byte(arg), &c); err != nil {
		return c, types.Errorf(types.Invalid, "parse argument %q of the watchdog: %w; it is for an agent to call", arg, err)
	}
	if !filepath.IsAbs(c.Dir) || len(c.Nodes) == 0 {
		return c, types.Errorf(types.Invalid, "parse argument %q of the watchdog: no absolute directory, or no node", arg)
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Root == "" {
			n.Root = cgroup.DefaultRoot
		}
		if !filepath.IsAbs(n.StateDir) || n.Cgroups.Group == "" {
			return c, types.Errorf(types.Invalid, "parse argument %q of the watchdog: node %q lacks a state directory or cgroups", arg, n.Name)
		}
	}
	return c, nil
}
