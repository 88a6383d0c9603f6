// Package daemon finds a running containerd, or runs a private one.
package daemon

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

// DefaultAddress is the socket of a machine's containerd.
const DefaultAddress = "/run/containerd/containerd.sock"

// ttrpcSuffix ends the path of the second socket, which shims use.
const ttrpcSuffix = ".ttrpc"

// maxSocketPath is the maximum length of the path of the first socket, in bytes.
const maxSocketPath = 107 - len(ttrpcSuffix)

// Config configures which containerd to use.
type Config struct {
	// Address is the socket of a containerd to use if it answers; "" means always a private one.
	Address string
	// Named reports whether a user chose Address. Then it is an error if no containerd answers
	// there: no private one is run instead.
	Named bool
	// Dir is the directory of a private containerd: images, snapshots, state, socket, configuration
	// and log. It is made if it is missing.
	Dir string
	// Keep leaves a private daemon running when Run ends.
	Keep bool
	// Logger logs starts and stops.
	Logger *zap.Logger
}

func (c Config) root() string   { return filepath.Join(c.Dir, "root") }
func (c Config) state() string  { return filepath.Join(c.Dir, "state") }
func (c Config) socket() string { return filepath.Join(c.Dir, "containerd.sock") }
func (c Config) toml() string   { return filepath.Join(c.Dir, "containerd.toml") }
func (c Config) log() string    { return filepath.Join(c.Dir, "containerd.log") }

// Validate returns Invalid if no daemon can run with c.
func (c Config) Validate() error {
	if !filepath.IsAbs(c.Dir) {
		return types.Errorf(types.Invalid, "run containerd in %q: the path is not absolute", c.Dir)
	}
	if n := len(c.socket()); n > maxSocketPath {
		return types.Errorf(types.Invalid, "run containerd in %s: the path of its socket has %d bytes, and Unix sockets allow %d; choose a shorter directory",
			c.Dir, n, maxSocketPath)
	}
	if strings.ContainsFunc(c.Dir, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return types.Errorf(types.Invalid, "run containerd in %q: the path has unprintable characters", c.Dir)
	}
	return nil
}

// disabled returns the plugins that Escher does not need: the Kubernetes one requires CNI, the
// others their own file system or device.
func disabled() []string {
	return []string{
		"io.containerd.grpc.v1.cri",
		"io.containerd.snapshotter.v1.aufs",
		"io.containerd.snapshotter.v1.btrfs",
		"io.containerd.snapshotter.v1.devmapper",
		"io.containerd.snapshotter.v1.zfs",
		"io.containerd.internal.v1.opt",
		"io.containerd.tracing.processor.v1.otlp",
		"io.containerd.internal.v1.tracing",
	}
}

// text returns the daemon's configuration file. containerd 1.6 and 2.x read version 2. Go quotes
// printable text in the same way as TOML.
func (c Config) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "version = 2\nroot = %q\nstate = %q\n", c.root(), c.state())
	quoted := make([]string, 0, len(disabled()))
	for _, plugin := range disabled() {
		quoted = append(quoted, strconv.Quote(plugin))
	}
	fmt.Fprintf(&b, "disabled_plugins = [%s]\n", strings.Join(quoted, ", "))
	fmt.Fprintf(&b, "[grpc]\naddress = %q\n", c.socket())
	return b.String()
}
