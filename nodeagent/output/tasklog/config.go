// Package tasklog writes the output of a container to a file. It runs as a separate process per
// container, which reads the output while agent and containerd restart.
package tasklog

import (
	"encoding/json"
	"path/filepath"

	"github.com/escher-sched/escher/types"
)

// DefaultMaxBytes is the size at which a log is rotated. With the previous file, a task uses at
// most twice that on disk.
const DefaultMaxBytes = 32 << 20

// Config configures the log of a container.
type Config struct {
	// Path is the absolute path of the log. The previous, full file is next to it: see Previous.
	Path string `json:"path"`
	// MaxBytes is the maximum size of the file; 0 means DefaultMaxBytes.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	// Again reports whether an earlier logger of the same output has ended. The output that it read
	// and did not write is lost, and the log says so.
	Again bool `json:"again,omitempty"`
}

// Previous returns the path of the previous, full log.
func Previous(path string) string { return path + ".1" }

// Arg returns c as the only argument of a logger: containerd starts a logger with pairs of
// arguments in undefined order, so there is one pair.
func (c Config) Arg() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // Config can always be encoded.
	}
	return string(text)
}

// ParseArg is the inverse of Arg. Invalid: arg is not such an argument.
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
