package nodeagent

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// hashBytes is the length of the hash that makes a container id unique.
const hashBytes = 8

// ContainerID returns the id of the container of an attempt: a readable part of the task's id, the
// attempt number, and a hash of everything that identifies the attempt, including its binding's
// CreateRevision. containerd accepts it: at most 76 letters and digits, with single "-" between
// them.
func ContainerID(a Attempt) string {
	h := sha256.New()
	for _, part := range []string{a.Cluster, a.Node, a.Namespace, a.Task, strconv.Itoa(a.Number), strconv.FormatInt(a.Revision, 10)} {
		// The length distinguishes "a", "bc" from "ab", "c".
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return fmt.Sprintf("%s-%d-%s", recognisable(a.Task), a.Number, hex.EncodeToString(h.Sum(nil)[:hashBytes]))
}

// recognisable returns the beginning of a task's id in a form that containerd accepts: letters and
// digits, with single separators between them.
func recognisable(task string) string {
	const most = 40
	words := strings.FieldsFunc(task[:min(len(task), most)], func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	return strings.Join(words, "-")
}

// LogPath returns the path of the output of an attempt for an agent with that state directory.
func LogPath(stateDir, namespace, task string, attempt int) string {
	return filepath.Join(stateDir, "logs", namespace, task, strconv.Itoa(attempt)+".log")
}

// socketDir returns the directory mounted into a container for its task socket. Its path is short,
// because the path of a socket must be.
func (c *Config) socketDir(id string) string {
	return filepath.Join(c.SocketDir, id[len(id)-2*hashBytes:])
}

// container returns the container of a bound attempt, and makes its scratch directories. Invalid:
// the node can never run it like this. Unavailable: it cannot now.
func (c *Config) container(id string, a Attempt, b *types.Binding, spec *types.Spec) (Container, error) {
	if err := c.Permissions.Check(c.Node, spec); err != nil {
		return Container{}, err
	}
	if err := spec.RunsOn(a.Number); err != nil {
		return Container{}, err
	}
	ports, err := portEnv(b, spec)
	if err != nil {
		return Container{}, err
	}
	requested := b.Amount(types.Memory) // its namespace may have added that
	memory := spec.MemoryOf(requested)
	if err := spec.FitsMemory(requested); err != nil {
		return Container{}, err
	}
	mounts, err := c.mounts(id, spec, memory)
	if err != nil {
		return Container{}, err
	}
	out := Container{
		ID: id, Attempt: a,
		Image: cmp.Or(b.Image, spec.Image), Entrypoint: spec.Entrypoint, Command: spec.Command, Dir: spec.Dir, User: spec.User, StopSignal: spec.StopSignal, Init: spec.Init,
		Env: []string{
			"ESCHER_NAMESPACE=" + a.Namespace, "ESCHER_TASK=" + a.Task,
			"ESCHER_ATTEMPT=" + strconv.Itoa(a.Number),
			"ESCHER_NODE=" + a.Node,
			"ESCHER_IMAGE=" + spec.Image,
		},
		MilliCPU:    int64(b.Amount(types.CPU)),
		MemoryBytes: int64(memory), KillFirst: requested == 0,
		ShmBytes: int64(cmp.Or(spec.Shm, types.MemoryShare(memory))), Ulimits: spec.Ulimits,
		CPULimit: spec.CPULimit, Pids: c.Permissions.Pids(spec), CapAdd: spec.CapAdd, CapDrop: spec.CapDrop,
		Privileged: spec.Privileged, ReadOnlyRoot: spec.ReadOnlyRoot,
		Stdin: spec.Stdin, TTY: spec.TTY,
		Devices: devicesOf(b),
		Mounts:  slices.Concat(c.Mounts, mounts),
	}
	if spec.Workdir != nil {
		out.Workdir = spec.Workdir
		out.Dir = cmp.Or(out.Dir, spec.Workdir.Target)
	}
	if c.StateDir != "" {
		out.LogPath = LogPath(c.StateDir, a.Namespace, a.Task, a.Number)
	}
	if c.SocketDir != "" && spec.Socket != types.SocketNone {
		out.Env = append(out.Env, "ESCHER_SOCKET="+filepath.Join(tasksocket.Dir, tasksocket.Name))
		// Connecting needs no write access, and the directory is on the machine's disk.
		out.Mounts = append(out.Mounts, Mount{Source: c.socketDir(id), Target: tasksocket.Dir, ReadOnly: true})
	}
	if len(out.Devices) > 0 {
		out.Env = append(out.Env, "ESCHER_DEVICES="+strings.Join(out.Devices, ","))
	}
	out.Env = slices.Concat(out.Env, ports, spec.Env)
	return out, nil
}

// devicesOf returns the names of the devices that a binding holds, each once.
func devicesOf(b *types.Binding) []string {
	var ids []string
	for _, s := range sharesOf(b) {
		ids = append(ids, s.ID)
	}
	return ids
}

// sharesOf returns the shares of devices that a binding holds, each device once.
func sharesOf(b *types.Binding) []types.DeviceShare {
	var all []types.DeviceShare
	for _, h := range b.Holds {
		if h.Resource.Unscoped() == types.Port {
			continue // The numbers of ports are not devices.
		}
		for _, d := range h.Devices {
			at := slices.IndexFunc(all, func(s types.DeviceShare) bool { return s.ID == d.ID })
			if at < 0 {
				all = append(all, d)
				continue
			}
			all[at].Share += d.Share
		}
	}
	return all
}
