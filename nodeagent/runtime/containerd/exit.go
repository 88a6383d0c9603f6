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

// The names of what containerd answers when asked for metrics.
const (
	metricsV1 = "io.containerd.cgroups.v1.Metrics"
	metricsV2 = "io.containerd.cgroups.v2.Metrics"
)

const (
	// initFailed is the code of runc's own process in a container when it cannot go on to
	// run the program.
	initFailed = 1
	// startFIFO is what that process waits at to be started, in runc's directory of the
	// container; who starts it removes it then.
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
	return e
}

// startCutShort reports whether nobody saw the start of a process to its end. containerd's
// end takes runc's start with it; when that had woken the process already, the process
// fails, as a rule before it became the program, but nobody can tell.
func (r *Runtime) startCutShort(id string) bool {
	_, err := os.Lstat(filepath.Join(runcRoot, r.conf.Namespace, id, startFIFO))
	return err == nil
}

// oomKills returns how many processes of the container the kernel killed for
// want of memory. The cgroup's counter is there until the task is deleted; the
// event could be missed. 0 when it cannot be read: the exit itself is certain,
// and must not wait for its explanation.
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

// beforeStart reports whether the process of a task that containerd calls created is runc's
// own still, which becomes the program when it is started. It is the program if runc and
// containerd were killed after runc woke it, and before they said so.
func beforeStart(pid uint32) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.FormatUint(uint64(pid), 10), "cmdline"))
	return err == nil && bytes.Count(text, []byte{0}) == 2 && bytes.HasSuffix(text, []byte("\x00init\x00"))
}
