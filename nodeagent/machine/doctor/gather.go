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

// Source has the sources of facts.
type Source struct {
	// Files is the root of the machine's file system; nil means this machine's.
	Files fs.FS
	// CDIDirs are the directories of CDI specifications; empty means the standard ones.
	CDIDirs []string
	// SMI is the path of nvidia-smi; "" means the one in PATH.
	SMI string
	// Etcd is the address of etcd; without endpoints there are no facts of a cluster.
	Etcd etcdstore.Address
	// Usage returns the size of the database of a store, its quota, and whether it refuses writes;
	// nil means unknown.
	Usage func(ctx context.Context, store *etcdstore.Store) (inUse, quota int64, alarm bool, err error)
}

// probeWait limits each probe that waits for an answer: of a disk, a driver or a daemon.
const probeWait = 5 * time.Second

// Gather collects the facts of the machine, and of the cluster if one is configured. It always
// returns: a missing answer is a fact too.
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

// machine collects the facts of the kernel and its settings.
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

// killMode returns the KillMode of a systemd unit, or systemd's default.
func killMode(unit []string) string {
	for _, line := range unit {
		if mode, ok := strings.CutPrefix(strings.TrimSpace(line), "KillMode="); ok {
			return strings.TrimSpace(mode)
		}
	}
	return "control-group"
}

// readClock asks the kernel whether the wall clock is synchronized.
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

// text returns a file without surrounding white space; "" if it cannot be read.
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

// number returns the number in a file; 0 if there is none.
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
		// White space in a path is escaped in octal.
		at := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(fields[1])
		all = append(all, mount{at, fields[2], strings.Split(fields[3], ",")})
	}
	return all
}

// within returns the result of f, unless f takes longer: then f runs on alone, because a wait for a
// disk or a driver cannot be interrupted.
func within[T any](ctx context.Context, d time.Duration, f func(context.Context) T) (result T, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	// A call that ends with ctx gets a moment to return.
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), d+time.Second)
	defer stop()
	return bounded.Do(late, func() T { return f(ctx) })
}
