package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/types/action"
)

func checkUser(f Facts) []Finding {
	d := of("user")
	if f.EUID != 0 {
		d.problem(fmt.Sprintf("this is user %d, and containers take root; what only root can see was not looked at", f.EUID), "%s", action.CheckMachine.Of())
	}
	return d.done("root")
}

// version parses the first two numbers of 5.10.0-18-amd64, v1.6.20~ds1 and the like.
func version(text string) (major, minor int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(text, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	digits := parts[1]
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(digits)
	return major, minor, err == nil && err2 == nil
}

func checkKernel(f Facts) []Finding {
	d := of("kernel")
	major, minor, ok := version(f.Release)
	older := func(x, y int) bool { return major < x || major == x && minor < y }
	switch {
	case !ok:
		d.warn(fmt.Sprintf("its version, %q, cannot be read", f.Release), "uname -r")
	case older(4, 15):
		d.problem(fmt.Sprintf("Linux %s is older than 4.15, the first that containers can be limited with as they have to be", f.Release), "install a newer kernel")
	case f.Cgroups.Unified && older(5, 2):
		d.problem(fmt.Sprintf("Linux %s with control groups v2 is older than 5.2, the first that can freeze them", f.Release), "install a newer kernel, or boot with systemd.unified_cgroup_hierarchy=0")
	case older(5, 10):
		d.warn(fmt.Sprintf("Linux %s gets no fixes any more", f.Release), "install a newer kernel")
	}
	return d.done("Linux " + f.Release)
}

// checkCgroups finds what prevents an agent's start, and controllers that containers lack.
func checkCgroups(f Facts) []Finding {
	d, c := of("cgroups"), f.Cgroups
	driver, err := c.Choose(f.Plan.CgroupDriver)
	if err != nil {
		message, remedy := remedied(fmt.Errorf("cgroup-driver: %w", err))
		d.problem(message, "%s", remedy)
	}
	if err := c.Check(); err != nil {
		message, remedy := remedied(err)
		d.problem(message, "%s", remedy)
		return d.all
	}
	for _, name := range []string{"devices", "freezer"} {
		if !c.Unified && !slices.Contains(c.Controllers, name) {
			d.problem(fmt.Sprintf("the controller %s of v1 is not mounted, and containers take it", name), "mount -t cgroup -o %s cgroup %s", name, filepath.Join(c.Root, name))
		}
	}
	version := "v1"
	if c.Unified {
		version = "v2"
	}
	return d.done(fmt.Sprintf("%s, driver %s: %s", version, driver, strings.Join(c.Controllers, " ")))
}

// remedied splits an error into its message and the remedy at its end.
func remedied(err error) (message, remedy string) {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[:i], text[i+2:]
	}
	return text, "see docs/operations.md"
}

func checkSwap(f Facts) []Finding {
	d := of("swap")
	if f.Swap && !f.Cgroups.Swap {
		d.warn("memory is swapped, and swap is not accounted: a task at its memory limit slows the disk down for all instead of ending", "swapoff -a, or boot with swapaccount=1")
	}
	if !f.Swap {
		return d.done("none")
	}
	return d.done("limited with memory")
}

func checkSeccomp(f Facts) []Finding {
	d := of("seccomp")
	if !slices.Contains(f.Seccomp, "errno") {
		d.problem("the kernel has no filters of system calls, and no container starts without one", "use a kernel with CONFIG_SECCOMP_FILTER=y")
	}
	return d.done("filters of system calls are there")
}

func checkClock(f Facts) []Finding {
	d := of("clock")
	switch {
	case !f.Clock.Known:
		d.warn("the kernel does not say whether the wall clock is right: deadlines and drains go by it", "timedatectl")
	case !f.Clock.Synchronised:
		d.warn("nothing keeps the wall clock right: deadlines, drains and certificates go by it", "timedatectl set-ntp true, or apt-get install chrony")
	case f.Clock.MaxError > time.Second:
		d.warn(fmt.Sprintf("the wall clock may be wrong by %s", f.Clock.MaxError.Round(time.Millisecond)), "chronyc tracking, or timedatectl timesync-status")
	}
	return d.done("synchronised, within " + f.Clock.MaxError.Round(time.Millisecond).String())
}

func checkBoot(f Facts) []Finding {
	d := of("boot clock")
	if !f.BootClock {
		d.problem("the clock since the boot cannot be read, and sessions are kept by it", "use a kernel with CLOCK_BOOTTIME, 2.6.39 or later")
	}
	if f.BootID == "" {
		d.warn("the boot has no id: an agent that is started again ends what runs, as it may be of another boot", "mount /proc")
	}
	return d.done("there, with an id of the boot")
}

// Lower limits are too low for a few hundred containers; for kernel.pid_max half of fewPIDs is.
const (
	fewFiles    = 65_536
	fewWatchers = 128
	fewWatches  = 8192
	fewPIDs     = 65_536
)

func checkLimits(f Facts) []Finding {
	d := of("limits")
	low := func(has, least int64, what, remedy string) {
		if has > 0 && has < least {
			d.warn(fmt.Sprintf("%s is %d, too few for some hundred containers", what, has), "%s", remedy)
		}
	}
	sysctl := func(name string, to int64) string { return fmt.Sprintf("sysctl -w %s=%d", name, to) }
	// systemd gives its units a separate limit.
	low(f.Limits.OpenFiles, 4096, "the limit of open files of this shell", "ulimit -n 1048576, or LimitNOFILE=1048576 in the agent's unit")
	low(f.Limits.AllFiles, fewFiles, "fs.file-max", sysctl("fs.file-max", 1<<20))
	low(f.Limits.Watchers, fewWatchers, "fs.inotify.max_user_instances", sysctl("fs.inotify.max_user_instances", 1024))
	low(f.Limits.Watches, fewWatches, "fs.inotify.max_user_watches", sysctl("fs.inotify.max_user_watches", 524_288))
	low(f.Limits.PIDs, fewPIDs/2, "kernel.pid_max", sysctl("kernel.pid_max", 4_194_304))
	return d.done(fmt.Sprintf("%d open files, %d processes", f.Limits.OpenFiles, f.Limits.PIDs))
}

func checkUnit(f Facts) []Finding {
	d := of("unit")
	switch f.KillMode {
	case "":
		return nil // it is not started by systemd
	case "process":
	default:
		d.problem(fmt.Sprintf("escher-agent.service has KillMode=%s: systemd ends the containers with the agent, at each restart and upgrade", f.KillMode), "set KillMode=process in it, as in deploy/systemd, and systemctl daemon-reload")
	}
	return d.done("systemd ends the agent alone")
}
