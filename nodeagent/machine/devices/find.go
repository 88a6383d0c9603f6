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
	// DefaultTimeout is how long nvidia-smi has to answer: on a machine whose driver is
	// not kept loaded it starts every GPU first, which takes seconds.
	DefaultTimeout = 10 * time.Second
	// patience is how long a driver may not answer until its devices are not given out:
	// one that is busy is not one that is broken.
	patience = time.Minute
)

// Config says where to look for devices. The zero value is this machine, and all GPUs.
type Config struct {
	// Root is the directory below which the files of the machine are; empty is "/".
	Root string
	// CDIDirs are where specifications of devices are, below Root, the last one counting
	// most; none are the standard ones, /etc/cdi and /var/run/cdi.
	CDIDirs []string
	// NoGPUs leaves out the GPUs that are found by themselves.
	NoGPUs bool
	// Named are devices of other classes to give out.
	Named []Named
	// NvidiaSMI is the program to ask; empty is nvidia-smi in PATH, if it is there.
	NvidiaSMI string
	// Timeout is how long it has to answer; 0 is DefaultTimeout.
	Timeout time.Duration
	// Log is told what is found wrong; nil is nobody.
	Log *zap.Logger
	// Now is the time; nil is time.Now.
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

// path returns where a path of the machine is.
func (c *Config) path(elem ...string) string {
	return filepath.Join(append([]string{c.Root}, elem...)...)
}

// Finder finds the devices of a machine, and how much they are used.
type Finder struct {
	cfg Config
	smi *smi

	// finding guards what Find keeps.
	finding sync.Mutex
	// silent is since when nvidia-smi does not answer, zero while it does.
	silent time.Time
	// links are those of each GPU by its UUID, as last read, and linked the GPUs that
	// they were read of: they lie as they lie.
	links  map[string][]string
	linked string
	// told is what was logged last of what is wrong, by where.
	told map[string]string

	mu sync.Mutex
	// ids are NVIDIA's devices by the names that nvidia-smi has for them: see
	// Finder.name. cards are those of AMD.
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

// found is a device as it is found.
type found struct {
	types.Device
	// partial tells that its driver does not answer: what it is like, and whether it is
	// healthy, is what was known before.
	partial bool
	// unlinked tells that its links were not read: they are those that were known.
	unlinked bool
}

// Find returns the devices as they are now, sorted by resource, place and name. known are
// those that it returned last, or that an earlier process did: of these none is left out, as
// somebody may hold it. One that is not there any more is unhealthy: Gone. What a driver
// does not tell for a while stays as it was.
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

// place says where the cards are that were named, so that one is not taken for two.
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

// noFile begins the reason of a device of which a file is not there.
const noFile = "its device file "

// missing marks devices whose files are not there: to inject them would fail.
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
				all[i].Unhealthy = noFile + file + " is not there: see whether its driver is loaded, and make its CDI specification anew"
				break
			}
		}
	}
}

// tell logs what is wrong, once until it changes; "" is nothing.
func (f *Finder) tell(where, what string) {
	if f.told[where] == what {
		return
	}
	f.told[where] = what
	if what != "" {
		f.cfg.Log.Warn("devices cannot be read as they should", zap.String("component", where), zap.String("reason", what))
	}
}

// Fixed are devices that are what they are: a source of devices for tests and for nodes
// that have none.
type Fixed []types.Device

// Find returns them, as Finder.Find does.
func (f Fixed) Find(_ context.Context, known []types.Device) []types.Device {
	all := make([]found, len(f))
	for i, d := range f {
		all[i].Device = d
	}
	return merge(known, all, time.Now(), false)
}

// sortDevices sorts as Find returns them: neighbours on the bus are neighbours here.
func sortDevices(all []types.Device) {
	slices.SortStableFunc(all, func(a, b types.Device) int {
		return cmp.Or(strings.Compare(string(a.Resource), string(b.Resource)), strings.Compare(a.Bus, b.Bus), natural(a.ID, b.ID))
	})
}

// natural compares names so that gpu9 is before gpu10.
func natural(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
