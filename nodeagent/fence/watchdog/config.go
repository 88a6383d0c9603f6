package watchdog

import (
	"encoding/json"
	"path/filepath"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

// Subcommand is what the program is called with to be a watchdog, before Config.Arg.
const Subcommand = "watchdog"

// Config says what a watchdog looks after.
type Config struct {
	// Dir has its lock and what it logs: there is one watchdog a directory, and the
	// next one takes over from it.
	Dir   string `json:"dir"`
	Nodes []Node `json:"nodes"`
}

// Node is one node of this machine.
type Node struct {
	Name string `json:"name"`
	// StateDir is that of its agent.
	StateDir string `json:"stateDir"`
	// Cgroups is where those of its containers are; Shared tells that there are those
	// of other nodes, too: then it kills what the log of the node says was started.
	Cgroups cgroup.Layout `json:"cgroups"`
	Shared  bool          `json:"shared,omitempty"`
	// Root is where cgroups are mounted; empty is cgroup.DefaultRoot.
	Root string `json:"root,omitempty"`
}

// Arg returns c as the argument after Subcommand.
func (c Config) Arg() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // Texts can always be encoded.
	}
	return string(text)
}

// parseArg is the inverse of Arg. Invalid: it is no such argument.
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
