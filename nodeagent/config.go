package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// Config says which node an agent is for, and what it works with. Store, Runtime,
// Cluster and Node must be set.
type Config struct {
	Store   controlplane.Store
	Runtime Runtime
	// Cluster is the id of the cluster, Node the name of the node.
	Cluster, Node string
	// Address is where the agent answers, Version what it is.
	Address, Version string
	// Capacity is what the node has of physical resources; Labels are sorted
	// by New. Devices finds what else it has: its capacity of what devices there are of
	// follows from them. nil: there are none.
	Capacity types.Requests
	Labels   []types.Label
	Devices  DeviceSource
	// ProbeEvery is how often Devices is asked; 0 is DefaultProbeEvery.
	ProbeEvery time.Duration
	// StateDir is a directory of this node alone, for its session and for logs.
	// Without one there are no logs, and a restarted agent begins a new session.
	StateDir string
	// SocketDir is a directory of this node alone, for the task sockets, which
	// nobody else may reach. Its path is short, as those of sockets have to be.
	// Without one there are no task sockets.
	SocketDir string
	// TTL is how long the node's session lasts without being renewed, in whole
	// seconds; 0 is DefaultTTL.
	TTL time.Duration
	// Starts bounds how many containers are started at once; 0 is DefaultStarts.
	Starts int
	// Mounts are host paths made visible in every container.
	Mounts []Mount
	// AllowMounts are the paths of this machine of which tasks may mount what they
	// name; none, if it is empty.
	AllowMounts []AllowedMount
	// Permissions are what of the dangerous tasks may ask for here.
	Permissions Permissions
	// Ports are given out by number to tasks that ask for ports; the zero value is
	// none. Capacity must not have them, too.
	Ports PortRange
	// LogRetention is how long the log of an attempt is kept after it was last
	// written to and the attempt is over; 0 is DefaultLogRetention. LogBytes is how
	// much all logs of the node take at most: then the oldest of what is over go
	// first; 0 is DefaultLogBytes.
	LogRetention time.Duration
	LogBytes     int64
	// Metrics are told what happens, nil: nobody is.
	Metrics *Metrics
	// Logger is told what the agent does; nil is nobody.
	Logger *zap.Logger

	// BootClock is the time since the machine was booted, in suspension too; nil
	// is CLOCK_BOOTTIME. BootID tells one boot from another; empty is the
	// kernel's. A test gives both.
	BootClock func() time.Duration
	BootID    string
	// Dial connects to the ports that tasks are checked by; nil is the machine's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// DeviceSource finds the devices of a node: devices.Finder, or devices.Fixed.
type DeviceSource interface {
	// Find returns the devices as they are now, and those of known that are not there any
	// more, which are unhealthy: devices.Gone.
	Find(ctx context.Context, known []types.Device) []types.Device
}

const (
	// DefaultTTL is short enough for lost tasks to be elsewhere soon, and long
	// enough for etcd to elect a leader three times.
	DefaultTTL = 15 * time.Second
	// MinTTL leaves a second between renewals.
	MinTTL = 3 * time.Second
	// DefaultStarts keeps a machine busy that pulls and unpacks images, and
	// responsive.
	DefaultStarts = 16
	// DefaultProbeEvery is how often devices and their health are probed.
	DefaultProbeEvery = 30 * time.Second
	// DefaultLogRetention is long enough to look into what failed last week.
	DefaultLogRetention = 7 * 24 * time.Hour
	// DefaultLogBytes fits beside images on the disk of any machine.
	DefaultLogBytes = 10 << 30

	// maxSocketPath is the longest path of a socket that the kernel takes.
	maxSocketPath = 107
)

// withDefaults returns c with what was left out.
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
		c.Metrics = NewMetrics() // Nobody reads them.
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
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

// Validate returns everything that is wrong, as one error of class Invalid.
func (c Config) Validate() error {
	var errs []error
	for name, missing := range map[string]bool{"store": c.Store == nil, "runtime": c.Runtime == nil} {
		if missing {
			errs = append(errs, fmt.Errorf("%s: is missing: give one", name))
		}
	}
	errs = append(errs, types.ValidateName("cluster", c.Cluster), types.ValidateName("node", c.Node), c.Capacity.Validate("capacity"))
	for _, r := range c.Capacity {
		if !types.IsPhysical(r.Name) || types.ResourceID(r.Name).IsPlacement() {
			errs = append(errs, fmt.Errorf("capacity.%s: is not physical: use cpu, memory, disk, gpu or a name with a domain", r.Name))
		}
	}
	for i, l := range c.Labels {
		errs = append(errs, types.ValidateName(fmt.Sprintf("labels[%d].name", i), l.Name), types.ValidateName(fmt.Sprintf("labels[%d].value", i), l.Value))
	}
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
	errs = append(errs, c.validateDirs(), c.validateMounts(), c.validatePorts(), c.validatePermissions())
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
