package containerd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	cgroup1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	cgroup2 "github.com/containerd/cgroups/v3/cgroup2/stats"
	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/escher-sched/escher/nodeagent"
)

// The type names of containerd's metrics.
const (
	metricsV1 = "io.containerd.cgroups.v1.Metrics"
	metricsV2 = "io.containerd.cgroups.v2.Metrics"
)

const (
	// initFailed is the exit code of runc's init process in a container if it cannot start the
	// program.
	initFailed = 1
	// startFIFO is the file in runc's directory of the container at which that process waits for
	// its start. The starter then removes the file.
	startFIFO = "exec.fifo"
)

// exit describes a process that has ended and is not removed.
func (r *Runtime) exit(ctx context.Context, id string, status uint32, at time.Time) nodeagent.Exit {
	if status == initFailed && r.startCutShort(id) {
		return nodeagent.Exit{
			Code: lostCode, At: at, Lost: true,
			Reason: "not known how it ended: containerd was killed while it was being started",
		}
	}
	e := nodeagent.Exit{Code: int(status), At: at}
	if e.Code != 0 {
		e.OOMKilled = r.oomKills(ctx, id) > 0
	}
	r.used(id, &e)
	return e
}

// used adds to an exit what the process used: its cgroup exists until the task is deleted. The peak of
// memory is that of the samples, because the kernel's counts files that could have been dropped. It is
// the kernel's after few samples, also since a restart of the agent, and if the process took all there was.
func (r *Runtime) used(id string, e *nodeagent.Exit) {
	sampled, enough := r.peaks.of(id)
	e.Memory = sampled
	s, err := r.counters.Read(r.Cgroups().Path(id))
	if err != nil {
		return // The exit is certain, and must not wait for this.
	}
	if s.CPU != nil {
		e.CPU = s.CPU.Used
	}
	if s.Memory != nil && (!enough || e.OOMKilled) {
		e.Memory = max(sampled, s.Memory.Peak)
	}
}

// startCutShort reports whether the start of a process was not completed. The end of containerd
// also kills runc's start. If that had already woken the process, the process fails, usually before
// it became the program, but this is not certain.
func (r *Runtime) startCutShort(id string) bool {
	_, err := os.Lstat(filepath.Join(runcRoot, r.conf.Namespace, id, startFIFO))
	return err == nil
}

// oomKills returns how many processes of the container the kernel killed for lack of memory. It
// reads the cgroup's counter, which exists until the task is deleted, because an event can be
// missed. It returns 0 if it cannot read: the exit is certain, and must not wait for its
// explanation.
func (r *Runtime) oomKills(ctx context.Context, id string) uint64 {
	answer, err := r.client.TaskService().Metrics(ctx, &tasks.MetricsRequest{Filters: []string{"id==" + id}})
	if err != nil {
		return 0
	}
	for _, m := range answer.Metrics {
		if m.ID == id {
			return oomKillsOf(m.Data)
		}
	}
	return 0
}

func oomKillsOf(data *anypb.Any) uint64 {
	switch data.GetTypeUrl() {
	case metricsV1:
		var m cgroup1.Metrics
		if proto.Unmarshal(data.Value, &m) == nil {
			return m.GetMemoryOomControl().GetOomKill()
		}
	case metricsV2:
		var m cgroup2.Metrics
		if proto.Unmarshal(data.Value, &m) == nil {
			return m.GetMemoryEvents().GetOomKill()
		}
	}
	return 0
}

// beforeStart reports whether the process of a task in containerd's state CREATED is still runc's
// init, which becomes the program at its start. It is already the program if runc and containerd
// were killed after runc woke it and before they recorded it.
func beforeStart(pid uint32) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.FormatUint(uint64(pid), 10), "cmdline"))
	return err == nil && bytes.Count(text, []byte{0}) == 2 && bytes.HasSuffix(text, []byte("\x00init\x00"))
}
