package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/nodeagent/permits"
	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Config describes the node of an agent and what the agent works with. Store, Runtime, Cluster and
// Node must be set.
type Config struct {
	Store   controlplane.Store
	Runtime Runtime
	// Cluster is the id of the cluster, Node the name of the node.
	Cluster, Node string
	// Address is the address of the agent's API, Version the version of the agent.
	Address, Version string
	// Host is the address at which tasks of other nodes reach tasks of this one; empty means that
	// of Address.
	Host string
	// Capacity is the capacity of the node in physical resources, except that of Devices, which
	// follows from the devices found. Labels are sorted at registration. A nil Devices means no
	// devices.
	Capacity types.Requests
	Labels   []types.Label
	Devices  DeviceSource
	// ProbeEvery is the time between two calls of Devices.Find; 0 means DefaultProbeEvery.
	ProbeEvery time.Duration
	// StateDir is a directory of this node alone, for its session and its logs. Without one there
	// are no logs, and a restarted agent begins a new session.
	StateDir string
	// SocketDir is a directory of this node alone for the task sockets. No other user may have
	// access to it. Its path must be short, as paths of sockets are. Without one there are no task
	// sockets.
	SocketDir string
	// TTL is how long the node's session lasts without a renewal, in whole seconds; 0 means
	// DefaultTTL.
	TTL time.Duration
	// Starts is the maximum number of concurrent container starts; 0 means DefaultStarts.
	Starts int
	// Mounts are host paths mounted into every container.
	Mounts []Mount
	// AllowMounts are the paths of this machine that tasks may mount. Empty means none.
	AllowMounts []AllowedMount
	// Permissions are the dangerous settings that tasks may request here.
	Permissions permits.Permissions
	// Ports is the range of ports allocated to tasks that request ports; the zero value means none.
	// Capacity must not contain them as well.
	Ports PortRange
	// LogRetention is how long the agent keeps the log of an ended attempt after the last write; 0
	// means DefaultLogRetention. LogBytes is the maximum size of all logs of the node: beyond it
	// the agent deletes the oldest logs of ended attempts; 0 means DefaultLogBytes.
	LogRetention time.Duration
	LogBytes     int64
	API          http.Handler // serves the HTTP API to tasks: see tasksocket.CallerOf; nil serves none
	// Metrics count what the agent does; nil means not counted.
	Metrics *Metrics
	// Logger logs what the agent does; nil means no log.
	Logger *zap.Logger
	// Say renders actions in reasons and events, which people read; nil means neutral words.
	Say action.Renderer

	// BootClock returns the time since the machine booted, suspended time included; nil means
	// CLOCK_BOOTTIME. BootID identifies the boot; "" means the kernel's. Tests set both.
	BootClock func() time.Duration
	BootID    string
	// FetchWorkdir brings the image of a workdir from another node to Runtime; nil means it cannot
	// be brought. NotFound: no node has it.
	FetchWorkdir func(ctx context.Context, image string) error
	// Secrets returns the values of the secrets that an attempt names, from a server; nil means that this
	// agent reaches none. NotFound: one of them is missing.
	Secrets func(ctx context.Context, a Attempt) (secrets.Values, error)
	// Login returns the login of an attempt's namespace for the registry of its image, from a server; nil
	// means that this agent reaches none.
	Login func(ctx context.Context, a Attempt) (secrets.Login, error)
	// Dial connects to the ports of health checks; nil means the machine's dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// DeviceSource finds the devices of a node: devices.Finder or devices.Fixed.
type DeviceSource interface {
	// Find returns the present devices, and those of known that are gone, as unhealthy:
	// devices.Gone.
	Find(ctx context.Context, known []types.Device) []types.Device
}

const (
	// DefaultTTL is short enough to reschedule lost tasks soon, and long enough for etcd to elect a
	// leader three times.
	DefaultTTL = 15 * time.Second
	// MinTTL leaves a second between renewals.
	MinTTL = 3 * time.Second
	// DefaultStarts keeps a machine that pulls and unpacks images both busy and responsive.
	DefaultStarts = 16
	// DefaultProbeEvery is how often devices and their health are probed.
	DefaultProbeEvery = 30 * time.Second
	// DefaultLogRetention is long enough to examine a failure of last week.
	DefaultLogRetention = 7 * 24 * time.Hour
	// DefaultLogBytes fits next to images on the disk of any machine.
	DefaultLogBytes = 10 << 30

	// maxSocketPath is the longest path of a socket that the kernel accepts.
	maxSocketPath = 107
)

// withDefaults returns c with defaults for unset fields.
func (c Config) withDefaults() Config {
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Starts == 0 {
		c.Starts = DefaultStarts
	}
	if c.ProbeEvery == 0 {
		c.ProbeEvery = DefaultProbeEvery
	}
	if c.LogRetention == 0 {
		c.LogRetention = DefaultLogRetention
	}
	if c.LogBytes == 0 {
		c.LogBytes = DefaultLogBytes
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics() // They are never read.
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Say == nil {
		c.Say = action.Action.String
	}
	if c.BootClock == nil {
		c.BootClock = watchdog.BootTime
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.BootID == "" {
		c.BootID = watchdog.BootID()
	}
	return c
}

// Validate returns everything that is wrong as one error of class Invalid.
func (c Config) Validate() error {
	var errs []error
	for name, missing := range map[string]bool{"store": c.Store == nil, "runtime": c.Runtime == nil} {
		if missing {
			errs = append(errs, fmt.Errorf("%s: is missing: give one", name))
		}
	}
	errs = append(errs, types.ValidateName("cluster", c.Cluster), types.ValidateName("node", c.Node), types.ValidateHost("host", c.Host), c.Capacity.Validate("capacity"))
	for _, r := range c.Capacity {
		if !types.IsPhysical(r.Name) || types.ResourceID(r.Name).IsPlacement() {
			errs = append(errs, fmt.Errorf("capacity.%s: is not physical: use cpu, memory, disk, gpu or a name with a domain", r.Name))
		}
	}
	errs = append(errs, types.ValidateLabels("labels", c.Labels))
	if c.TTL != 0 && (c.TTL < MinTTL || c.TTL%time.Second != 0) {
		errs = append(errs, fmt.Errorf("ttl: %s is not possible: give whole seconds, %s or more", c.TTL, MinTTL))
	}
	if c.ProbeEvery != 0 && c.ProbeEvery < time.Second {
		errs = append(errs, fmt.Errorf("device-interval: %s is too short: give 1s or more", c.ProbeEvery))
	}
	if c.Starts < 0 {
		errs = append(errs, fmt.Errorf("starts: %d is negative: give 1 or more", c.Starts))
	}
	if c.LogRetention < 0 || c.LogBytes < 0 {
		errs = append(errs, fmt.Errorf("logs: to keep them for %s, or %d bytes of them, is not possible: give more than 0", c.LogRetention, c.LogBytes))
	}
	errs = append(errs, c.validateDirs(), c.validateMounts(), c.validatePorts(), c.Permissions.Validate(c.Capacity))
	if err := errors.Join(errs...); err != nil {
		return types.Errorf(types.Invalid, "configure the agent of node %q: %w", c.Node, err)
	}
	return nil
}

func (c Config) validateDirs() error {
	var errs []error
	for name, dir := range map[string]string{"state dir": c.StateDir, "socket dir": c.SocketDir} {
		if dir != "" && !filepath.IsAbs(dir) {
			errs = append(errs, fmt.Errorf("%s: %q is not absolute: give the full path", name, dir))
		}
	}
	if n := len(filepath.Join(c.socketDir(ContainerID(Attempt{})), tasksocket.Name)); n > maxSocketPath {
		errs = append(errs, fmt.Errorf("socket dir: %q is too long for sockets below it: give one that is %d bytes shorter", c.SocketDir, n-maxSocketPath))
	}
	return errors.Join(errs...)
}
