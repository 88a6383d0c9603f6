package devices

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/escher-sched/escher/types"
)

const (
	// DefaultTimeout is how long nvidia-smi may take: if the driver does not stay loaded, it starts
	// every GPU first, which takes seconds.
	DefaultTimeout = 10 * time.Second
	// patience is how long a driver may not answer before its devices become unhealthy: a busy
	// driver is not a broken one.
	patience = time.Minute
)

// Config configures the search for devices. The zero value means this machine, and all GPUs.
type Config struct {
	// Root is the root directory of the machine's files; "" means "/".
	Root string
	// CDIDirs are the directories of CDI specifications below Root, the last with the highest
	// priority; empty means the standard ones, /etc/cdi and /var/run/cdi.
	CDIDirs []string
	// NoGPUs disables the search for GPUs.
	NoGPUs bool
	// Named are devices of other classes.
	Named []Named
	// NvidiaSMI is the path of nvidia-smi; "" means the one in PATH, if any.
	NvidiaSMI string
	// Timeout limits a run of nvidia-smi; 0 means DefaultTimeout.
	Timeout time.Duration
	// Log logs errors; nil means no log.
	Log *zap.Logger
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	c.Root = cmp.Or(c.Root, "/")
	if len(c.CDIDirs) == 0 {
		c.CDIDirs = cdi.DefaultSpecDirs
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// path returns a path of the machine below Root.
func (c *Config) path(elem ...string) string {
	return filepath.Join(append([]string{c.Root}, elem...)...)
}

// Finder finds the devices of a machine, and their usage.
type Finder struct {
	cfg Config
	smi *smi

	// finding guards the state of Find.
	finding sync.Mutex
	// silent is the time since which nvidia-smi does not answer; zero while it answers.
	silent time.Time
	// links are the links of each GPU by its UUID, as last read. linked are the GPUs for which they
	// were read: links do not change.
	links  map[string][]string
	linked string
	// told is the last logged error, by component.
	told map[string]string

	mu sync.Mutex
	// ids maps nvidia-smi's names to NVIDIA devices: see Finder.name. cards are the AMD GPUs.
	ids   map[string]string
	cards []card
}

// New makes a Finder.
func New(cfg Config) *Finder {
	cfg = cfg.withDefaults()
	return &Finder{
		cfg: cfg, smi: &smi{path: cfg.NvidiaSMI, timeout: cfg.Timeout, now: cfg.Now},
		links: make(map[string][]string), ids: make(map[string]string), told: make(map[string]string),
	}
}

// found is a device that was found.
type found struct {
	types.Device
	// partial reports whether its driver does not answer: its properties and health are the known
	// ones.
	partial bool
	// unlinked reports whether its links were not read: they are the known ones.
	unlinked bool
}

// Find returns the present devices, sorted by resource, place and name. known are those that it, or
// an earlier process, returned last. It omits none of these, because a task may hold it. A device
// that is gone is unhealthy: Gone. Properties that a driver does not report for a while stay as
// they were.
func (f *Finder) Find(ctx context.Context, known []types.Device) []types.Device {
	f.finding.Lock()
	defer f.finding.Unlock()
	specs := f.described()
	var all []found
	if !f.cfg.NoGPUs {
		all = append(all, f.findNvidia(ctx, specs, known)...)
		all = append(all, f.findAMD(specs, known)...)
	}
	for _, n := range f.cfg.Named {
		all = append(all, n.find(specs, known)...)
	}
	f.place(all, specs)
	f.missing(all, specs)
	now := f.cfg.Now()
	return merge(known, all, now, !f.silent.IsZero() && now.Sub(f.silent) < patience)
}

// place sets the place of named cards, so that one card does not count as two.
func (f *Finder) place(all []found, specs []described) {
	var proc []procGPU
	if len(f.cfg.Named) > 0 {
		proc = f.procGPUs()
	}
	for i := range all {
		at := slices.IndexFunc(specs, func(d described) bool { return d.id() == all[i].ID })
		if at < 0 || all[i].Bus != "" || isSlice(&specs[at]) {
			continue
		}
		minor := minorOf(&specs[at])
		if p := slices.IndexFunc(proc, func(p procGPU) bool { return minor >= 0 && p.minor == minor }); p >= 0 {
			all[i].Bus, all[i].NUMA = proc[p].bus, proc[p].numa
		} else if dir := f.renderDir(&specs[at]); dir != "" {
			all[i].Bus, all[i].NUMA = busOfDir(dir), f.numaOf(dir)
		}
	}
}

// noFile is the beginning of the reason for a missing device file.
const noFile = "its device file "

// missing marks devices with missing files: their injection would fail.
func (f *Finder) missing(all []found, specs []described) {
	for i := range all {
		if all[i].Unhealthy != "" {
			continue
		}
		at := slices.IndexFunc(specs, func(d described) bool { return d.id() == all[i].ID })
		if at < 0 {
			continue
		}
		for _, file := range specs[at].files {
			if !exists(f.cfg.path(file)) {
				all[i].Unhealthy = noFile + file + " is not there: see whether its driver is loaded, and make its CDI specification again"
				break
			}
		}
	}
}

// tell logs an error once until it changes; "" means no error.
func (f *Finder) tell(where, what string) {
	if f.told[where] == what {
		return
	}
	f.told[where] = what
	if what != "" {
		f.cfg.Log.Warn("devices cannot be read as they should", zap.String("component", where), zap.String("reason", what))
	}
}

// Fixed is a fixed list of devices, for tests and for nodes without devices.
type Fixed []types.Device

// Find returns the list, merged with known as by Finder.Find.
func (f Fixed) Find(_ context.Context, known []types.Device) []types.Device {
	all := make([]found, len(f))
	for i, d := range f {
		all[i].Device = d
	}
	return merge(known, all, time.Now(), false)
}

// sortDevices sorts devices as Find returns them: neighbors on the bus are next to each other.
func sortDevices(all []types.Device) {
	slices.SortStableFunc(all, func(a, b types.Device) int {
		return cmp.Or(strings.Compare(string(a.Resource), string(b.Resource)), strings.Compare(a.Bus, b.Bus), natural(a.ID, b.ID))
	})
}

// natural compares names so that gpu9 comes before gpu10.
func natural(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
