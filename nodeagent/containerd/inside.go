package containerd

import (
	"context"
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

// Root implements nodeagent.Runtime. The directory is that of a process id.
func (r *Runtime) Root(ctx context.Context, id string) (string, error) {
	p, err := r.runs(ctx, id, "show the files of")
	if err != nil {
		return "", err
	}
	return filepath.Join("/proc", strconv.FormatUint(uint64(p.Pid), 10), "root"), nil
}

// Usage implements nodeagent.Runtime.
func (r *Runtime) Usage(ctx context.Context) (map[string]nodeagent.Usage, error) {
	records, err := r.client.ContainerService().List(ctx, ours(r.conf.Cluster, r.conf.Node))
	if err != nil {
		return nil, classify(err, "list containers")
	}
	if len(records) == 0 {
		return nil, nil
	}
	filters := make([]string, 0, len(records))
	for _, record := range records {
		filters = append(filters, "id=="+record.ID)
	}
	answer, err := r.client.TaskService().Metrics(ctx, &tasks.MetricsRequest{Filters: filters})
	if err != nil {
		return nil, classify(native(err), "read what containers use")
	}
	all := make(map[string]nodeagent.Usage, len(answer.Metrics))
	for _, m := range answer.Metrics {
		if u := usageOf(m.Data); u.Processes > 0 { // Others have ended, or wait to be started.
			all[m.ID] = u
		}
	}
	return all, nil
}

func usageOf(data *anypb.Any) nodeagent.Usage {
	switch data.GetTypeUrl() {
	case metricsV1:
		var m cgroup1.Metrics
		if proto.Unmarshal(data.Value, &m) == nil {
			memory := m.GetMemory()
			return usage(m.GetCPU().GetUsage().GetTotal(), memory.GetUsage().GetUsage(), memory.GetTotalInactiveFile(), m.GetPids().GetCurrent())
		}
	case metricsV2:
		var m cgroup2.Metrics
		if proto.Unmarshal(data.Value, &m) == nil {
			memory := m.GetMemory()
			return usage(m.GetCPU().GetUsageUsec()*uint64(time.Microsecond), memory.GetUsage(), memory.GetInactiveFile(), m.GetPids().GetCurrent())
		}
	}
	return nodeagent.Usage{}
}

// usage takes nanoseconds, bytes, bytes of files that nobody has read lately, and
// processes; the kernel counts threads as such.
func usage(cpu, memory, inactive, processes uint64) nodeagent.Usage {
	return nodeagent.Usage{
		CPU: time.Duration(cpu), MemoryBytes: int64(memory - min(memory, inactive)), Processes: int64(processes),
	}
}
