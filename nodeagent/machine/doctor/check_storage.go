package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd/daemon"
	"github.com/escher-sched/escher/types/action"
)

func bytesText(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// The minimum free space of a disk.
const (
	leastFree = 1 << 30
	// littleFree is enough for the logs of tasks and for images.
	littleFree = 20 << 30
	littlePart = 20 // a twentieth
	// slowFsync is the delay of each start of a container above which there is a warning.
	slowFsync = 50 * time.Millisecond
)

func checkStateDir(f Facts) []Finding {
	d, dir := of("state dir"), f.StateDir
	switch {
	case dir.NotDir:
		d.problem(fmt.Sprintf("%s is no directory", dir.At), "choose another one with %s", action.AgentStateDir.Of())
		return d.all
	case dir.At == dir.Path && dir.UID != 0:
		d.problem(fmt.Sprintf("%s belongs to user %d, who could make root do anything", dir.Path, dir.UID), "chown root: %s", dir.Path)
	case dir.At == dir.Path && dir.Mode&0o022 != 0:
		d.problem(fmt.Sprintf("%s can be written by others than root (%#o)", dir.Path, dir.Mode), "chmod 700 %s", dir.Path)
	case dir.At == dir.Path && dir.Mode&0o077 != 0:
		d.warn(fmt.Sprintf("%s can be read by others than root (%#o), with the output of all tasks", dir.Path, dir.Mode), "chmod 700 %s", dir.Path)
	}
	switch {
	case isRemoteFS(dir.Type):
		d.problem(fmt.Sprintf("%s is on %s: locks, sockets and layers of images do not work there", dir.Path, dir.Type), "choose a directory on a disk of this machine with %s", action.AgentStateDir.Of())
	case slices.Contains([]string{"tmpfs", "ramfs"}, dir.Type):
		d.warn(fmt.Sprintf("%s is in memory (%s): logs and images use it up, and a restart of the machine loses them", dir.Path, dir.Type), "choose a directory on a disk with %s", action.AgentStateDir.Of())
	}
	d.disk(dir)
	if f.Containerd.Serving == "" {
		d.layers(dir)
	}
	if dir.Fsync > slowFsync {
		d.warn(fmt.Sprintf("a small write takes %s to be on its disk, and each start of a container waits for one", dir.Fsync.Round(time.Millisecond)), "move it to a faster disk")
	}
	well := fmt.Sprintf("%s: %s, %s free", dir.Path, dir.Type, bytesText(dir.Free))
	if dir.At != dir.Path {
		well += "; the agent makes it"
	}
	if dir.Fsync > 0 {
		well += fmt.Sprintf(", fsync %s", dir.Fsync.Round(10*time.Microsecond))
	}
	return d.done(well)
}

// isRemoteFS reports whether a file system is of another machine, as far as is known.
func isRemoteFS(kind string) bool {
	return strings.HasPrefix(kind, "nfs") || strings.HasPrefix(kind, "fuse.") ||
		slices.Contains([]string{"cifs", "smb3", "9p", "ceph", "glusterfs", "lustre", "afs", "virtiofs"}, kind)
}

// disk adds findings about the disk of a directory.
func (d *diagnosis) disk(dir Dir) {
	switch {
	case dir.Error != "":
		d.problem(fmt.Sprintf("%s cannot be used: %s", dir.Path, dir.Error), "correct that, or choose another directory")
		return
	case dir.ReadOnly:
		d.problem(fmt.Sprintf("%s is on a disk that is mounted for reading alone", dir.Path), "mount -o remount,rw the disk, after a look at what dmesg says of it")
		return
	case dir.Size == 0:
		return // not known
	case dir.Free < leastFree:
		d.problem(fmt.Sprintf("%s has %s free: the next image or log fills it", dir.Path, bytesText(dir.Free)), "make room there; du -xh %s | sort -h | tail", dir.At)
	case dir.Free < littleFree && dir.Free < dir.Size/littlePart:
		d.warn(fmt.Sprintf("%s has %s of %s free", dir.Path, bytesText(dir.Free), bytesText(dir.Size)), "make room there; du -xh %s | sort -h | tail", dir.At)
	}
	if dir.Inodes > 0 && dir.FreeInodes < dir.Inodes/100 {
		d.problem(fmt.Sprintf("%s has room for %d more files: images have many", dir.Path, dir.FreeInodes), "remove small files there, or make a file system with more inodes")
	}
}

// layers adds the reasons why images cannot be unpacked in a directory.
func (d *diagnosis) layers(dir Dir) {
	if dir.NoExec {
		d.problem(fmt.Sprintf("%s is mounted noexec: no program of an image could be run", dir.Path), "mount -o remount,exec the disk, or choose another directory")
	}
	if dir.Overlay != "" {
		d.problem(fmt.Sprintf("no overlay can be made on %s, which is %s: %s", dir.Path, dir.Type, dir.Overlay), "modprobe overlay, or choose a directory on ext4 or xfs (made with ftype=1)")
	}
}

func checkImages(f Facts) []Finding {
	if f.Images == nil {
		return nil
	}
	d := of("images")
	if f.EUID != 0 && f.Images.Error != "" {
		return nil // root is required
	}
	d.disk(*f.Images)
	d.layers(*f.Images)
	if isRemoteFS(f.Images.Type) {
		d.problem(fmt.Sprintf("%s is on %s: layers of images do not work there", f.Images.Path, f.Images.Type), "move containerd's root to a disk of this machine, in /etc/containerd/config.toml")
	}
	return d.done(fmt.Sprintf("%s: %s, %s free", f.Images.Path, f.Images.Type, bytesText(f.Images.Free)))
}

func checkSockets(f Facts) []Finding {
	d := of("sockets")
	if err := nodeagent.FitsSockets(f.Plan.SocketDir); err != nil {
		d.problem(err.Error(), "choose a shorter %s", action.AgentStateDir.Of())
	}
	if f.Containerd.Serving == "" {
		if err := (daemon.Config{Dir: f.Plan.StateDir + "/containerd"}).Validate(); err != nil {
			d.problem(err.Error(), "choose a shorter %s", action.AgentStateDir.Of())
		}
	}
	return d.done(f.Plan.SocketDir + " is short enough for them")
}

func checkLogs(f Facts) []Finding {
	d := of("logs")
	text := bytesText(f.LogBytes)
	if f.LogsCut {
		text = "more than " + text
	}
	// The agent does not delete logs of running attempts.
	if f.LogBytes > nodeagent.DefaultLogBytes+nodeagent.DefaultLogBytes/10 {
		d.warn(fmt.Sprintf("the logs of tasks take %s, beyond the %s at which the agent begins to delete: it does not run, or tasks that run write that much", text, bytesText(nodeagent.DefaultLogBytes)),
			"start the agent, or rm the oldest below %s/logs", f.Plan.StateDir)
	}
	return d.done(text)
}
