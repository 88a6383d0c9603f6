package doctor

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/nodeagent/bounded"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
)

// Source is what facts are gathered from.
type Source struct {
	// Files is the root of the machine's file system; nil is the machine's own.
	Files fs.FS
	// CDIDirs are where specifications of devices are; none are the standard ones.
	CDIDirs []string
	// SMI is the path of nvidia-smi; empty is the one in PATH.
	SMI string
	// Etcd says how etcd is reached; without endpoints there is no cluster to look at.
	Etcd etcdstore.Address
	// Usage asks how full the database behind a store is, its quota, and whether it
	// refuses writes; nil asks nobody.
	Usage func(ctx context.Context, store *etcdstore.Store) (inUse, quota int64, alarm bool, err error)
}

// probeWait bounds each probe that something else has to answer: a disk, a driver, a
// daemon.
const probeWait = 5 * time.Second

// Gather looks at the machine, and at the cluster if one is named. It always returns:
// what does not answer in time is a fact too.
func Gather(ctx context.Context, plan Plan, src Source) Facts {
	if src.Files == nil {
		src.Files = os.DirFS("/")
	}
	h := host{src.Files}
	f := Facts{Now: time.Now(), Plan: plan, EUID: os.Geteuid()}
	f.machine(h)
	var all sync.WaitGroup
	for _, look := range []func(){
		func() { f.Containerd = gatherContainerd(ctx, h, plan) },
		func() { f.StateDir = gatherDir(ctx, h, plan.StateDir, true) },
		func() { f.LogBytes, f.LogsCut = gatherLogs(ctx, filepath.Join(plan.StateDir, "logs")) },
		func() { f.Agent, f.Watchdog = gatherState(ctx, probeWait, h, plan.StateDir) },
		func() { f.GPU = gatherGPU(ctx, h, src) },
		func() { f.Etcd, f.Cluster = gatherCluster(ctx, plan, src) },
	} {
		all.Go(look)
	}
	all.Wait()
	if f.Containerd.Serving != "" {
		images := gatherDir(ctx, h, f.Containerd.Root, false)
		f.Images = &images
	}
	f.Spaces = gatherSpaces(ctx, plan, f.Containerd)
	f.Network = gatherNetwork(ctx, h, plan, f.Agent, src.Etcd.Endpoints)
	return f
}

// machine looks at the kernel, and what it is set to.
func (f *Facts) machine(h host) {
	f.Release = h.text("/proc/sys/kernel/osrelease")
	f.Cgroups = gatherCgroups(h, cgroup.DefaultRoot, cgroup.DefaultRun)
	f.Swap = len(h.lines("/proc/swaps")) > 1
	f.Seccomp = strings.Fields(h.text("/proc/sys/kernel/seccomp/actions_avail"))
	f.BootID = h.text("/proc/sys/kernel/random/boot_id")
	var ts unix.Timespec
	f.BootClock = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil
	f.Clock = readClock()
	f.Limits = Limits{
		AllFiles: h.number("/proc/sys/fs/file-max"),
		Watchers: h.number("/proc/sys/fs/inotify/max_user_instances"),
		Watches:  h.number("/proc/sys/fs/inotify/max_user_watches"),
		PIDs:     h.number("/proc/sys/kernel/pid_max"),
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		f.Limits.OpenFiles = int64(min(limit.Cur, 1<<62))
	}
	for _, dir := range []string{"/etc/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system"} {
		if unit := h.lines(dir + "/escher-agent.service"); f.KillMode == "" && len(unit) > 0 {
			f.KillMode = killMode(unit)
		}
	}
}

// killMode reads what a unit of systemd says, or systemd's default.
func killMode(unit []string) string {
	for _, line := range unit {
		if mode, ok := strings.CutPrefix(strings.TrimSpace(line), "KillMode="); ok {
			return strings.TrimSpace(mode)
		}
	}
	return "control-group"
}

// readClock asks the kernel whether the wall clock is kept right.
func readClock() Clock {
	var tx unix.Timex
	state, err := unix.Adjtimex(&tx)
	if err != nil {
		return Clock{}
	}
	return Clock{
		Known: true, Synchronised: state != unix.TIME_ERROR && tx.Status&unix.STA_UNSYNC == 0,
		MaxError: time.Duration(tx.Maxerror) * time.Microsecond,
	}
}

// host reads the files of a machine.
type host struct{ files fs.FS }

// text returns a file without the white space around it, empty if it cannot be read.
func (h host) text(path string) string {
	text, err := fs.ReadFile(h.files, strings.TrimPrefix(path, "/"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (h host) lines(path string) []string {
	text := h.text(path)
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// number returns the number that a file holds, 0 if it holds none.
func (h host) number(path string) int64 {
	n, _ := strconv.ParseInt(h.text(path), 10, 64)
	return n
}

func (h host) has(path string) bool {
	_, err := fs.Stat(h.files, strings.TrimPrefix(path, "/"))
	return err == nil
}

func (h host) glob(pattern string) []string {
	paths, _ := fs.Glob(h.files, strings.TrimPrefix(pattern, "/")) // the patterns are well-formed
	return paths
}

// mount is a line of /proc/self/mounts.
type mount struct {
	at, kind string
	options  []string
}

func (h host) mounts() []mount {
	var all []mount
	for _, line := range h.lines("/proc/self/mounts") {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		// White space in a path is written in octal.
		at := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(fields[1])
		all = append(all, mount{at, fields[2], strings.Split(fields[3], ",")})
	}
	return all
}

// within returns what f does, unless it takes longer: then f is left to itself, as
// nothing ends what waits for a disk or a driver.
func within[T any](ctx context.Context, d time.Duration, f func(context.Context) T) (result T, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	// What ends with ctx is given a moment to say so.
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), d+time.Second)
	defer stop()
	return bounded.Do(late, func() T { return f(ctx) })
}
