// Package tasklog writes the output of a container to a file. It runs as a
// process of its own beside each container, so that output goes on being read
// while agent and containerd are restarted.
package tasklog

import (
	"encoding/json"
	"path/filepath"

	"github.com/escher-sched/escher/types"
)

// DefaultMaxBytes is how long a log gets before it is put aside: with the one
// before it, a task has at most twice that on disk.
const DefaultMaxBytes = 32 << 20

// Config says where output goes.
type Config struct {
	// Path is the file appended to; an absolute path. The full one before it
	// is beside it: see Previous.
	Path string `json:"path"`
	// MaxBytes is how long the file may get; 0 is DefaultMaxBytes.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	// Again tells that another logger of the same output has ended before: what it had
	// read and not written is missing, which the log says.
	Again bool `json:"again,omitempty"`
}

// Previous returns where the log before the current one is kept.
func Previous(path string) string { return path + ".1" }

// Arg returns c as the one argument a logger is started with: containerd starts
// a logger with pairs of arguments in no certain order, so there is one pair.
func (c Config) Arg() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // A string and a number can always be encoded.
	}
	return string(text)
}

// ParseArg is the inverse of Arg. Invalid when it is not such an argument.
func ParseArg(arg string) (Config, error) {
	var c Config
	if err := json.Unmarshal([]byte(arg), &c); err != nil {
		return Config{}, types.Errorf(types.Invalid, "parse argument %q of the task logger: %w; it is for containerd to call", arg, err)
	}
	if !filepath.IsAbs(c.Path) || c.MaxBytes < 0 {
		return Config{}, types.Errorf(types.Invalid, "parse argument %q of the task logger: no absolute path, or a negative size", arg)
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	return c, nil
}
