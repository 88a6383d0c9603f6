package usage

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/controlplane/metric"
	"github.com/escher-sched/escher/types/measured"
)

// TaskMetrics is the prefix of metrics with labels of tasks.
const TaskMetrics = "escher_task_"

// Metrics show the latest samples. Several nodes of a process are next to each other. Metrics of
// tasks cover running attempts only, which bounds their number.
type Metrics struct {
	// NoTasks leaves out the metrics of tasks, whose labels have their names.
	NoTasks bool

	mu       sync.Mutex
	samplers []*Sampler

	task, node []number[measured.Use]
	device     []number[measured.Device]
	failed     *prometheus.Desc
}

// number is one number of a T.
type number[T any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// of returns it; nil if it is not known.
	of func(T) *float64
	// last are the values of its own labels, after those of the T.
	last []string
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics makes metrics without a node.
func NewMetrics() *Metrics {
	m := &Metrics{failed: metric.Desc("usage", "failed_total", "Reads of what is used that failed or hung.", "node")}
	m.task = useMetrics("task", "a running attempt", []string{"node", "namespace", "task", "attempt"})
	m.node = useMetrics("node", "the machine of a node, with all that runs there,", []string{"node"})
	m.device = deviceMetrics()
	return m
}

// useMetrics returns the metrics of an attempt or a machine.
func useMetrics(component, of string, labels []string) []number[measured.Use] {
	var all []number[measured.Use]
	// add adds one number, or several that differ in their own labels.
	add := func(name, help string, kind prometheus.ValueType, own []string, each ...number[measured.Use]) {
		desc := metric.Desc(component, name, fmt.Sprintf(help, of), slices.Concat(labels, own)...)
		for _, one := range each {
			one.desc, one.kind = desc, kind
			all = append(all, one)
		}
	}
	const total, now = prometheus.CounterValue, prometheus.GaugeValue
	add("cpu_seconds_total", "Processor time that %s has used.", total, nil, float(func(u measured.Use) *float64 { return u.CPUSeconds }))
	add("memory_bytes", "Memory that %s has now, without files that can be dropped at once.", now, nil, integer(func(u measured.Use) *int64 { return u.MemoryBytes }))
	add("memory_rss_bytes", "Memory that %s has now, without files.", now, nil, integer(func(u measured.Use) *int64 { return u.MemoryRSSBytes }))
	add("memory_limit_bytes", "Memory that %s can have.", now, nil, integer(func(u measured.Use) *int64 { return u.MemoryLimitBytes }))
	add("io_bytes_total", "Bytes that %s has read from disks and written to them, by op: read, write.", total, []string{"op"},
		integer(func(u measured.Use) *int64 { return u.IOReadBytes }, "read"), integer(func(u measured.Use) *int64 { return u.IOWriteBytes }, "write"))
	add("io_operations_total", "Operations of disks that %s has had done, by op: read, write.", total, []string{"op"},
		integer(func(u measured.Use) *int64 { return u.IOReads }, "read"), integer(func(u measured.Use) *int64 { return u.IOWrites }, "write"))
	add("pressure_seconds_total", "Time that %s waited for a resource (cpu, memory, io), by kind: some of it, or all of it (full).", total, []string{"resource", "kind"}, stalls()...)
	if component == "task" {
		add("cpu_throttled_seconds_total", "Time that %s was held back by its limit.", total, nil, float(func(u measured.Use) *float64 { return u.ThrottledSeconds }))
		add("memory_peak_bytes", "The most memory that %s ever had, files included.", now, nil, integer(func(u measured.Use) *int64 { return u.MemoryPeakBytes }))
		add("oom_kills_total", "Processes of %s killed for lack of memory.", total, nil, integer(func(u measured.Use) *int64 { return u.OOMKills }))
		add("processes", "Processes and threads that %s has.", now, nil, integer(func(u measured.Use) *int64 { return u.Processes }))
	}
	return all
}

// float and integer return a number of a Use with the values of its own labels.
func float(of func(measured.Use) *float64, last ...string) number[measured.Use] {
	return number[measured.Use]{of: of, last: last}
}

func integer(of func(measured.Use) *int64, last ...string) number[measured.Use] {
	return float(func(u measured.Use) *float64 { return asFloat(of(u)) }, last...)
}

// asFloat converts a number; nil stays nil.
func asFloat(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

// stalls returns the numbers of the pressure.
func stalls() []number[measured.Use] {
	var all []number[measured.Use]
	add := func(resource string, of func(*measured.Pressure) *measured.Stall) {
		for kind, seconds := range map[string]func(*measured.Stall) *float64{
			"some": func(s *measured.Stall) *float64 { return &s.SomeSeconds },
			"full": func(s *measured.Stall) *float64 { return &s.FullSeconds },
		} {
			all = append(all, float(func(u measured.Use) *float64 {
				if u.Pressure == nil || of(u.Pressure) == nil {
					return nil
				}
				return seconds(of(u.Pressure))
			}, resource, kind))
		}
	}
	add("cpu", func(p *measured.Pressure) *measured.Stall { return p.CPU })
	add("memory", func(p *measured.Pressure) *measured.Stall { return p.Memory })
	add("io", func(p *measured.Pressure) *measured.Stall { return p.IO })
	return all
}

// deviceMetrics returns the metrics of devices.
func deviceMetrics() []number[measured.Device] {
	one := func(name, help string, of func(measured.Device) *float64) number[measured.Device] {
		return number[measured.Device]{
			desc: metric.Desc("device", name, help, "node", "device"),
			kind: prometheus.GaugeValue, of: of,
		}
	}
	return []number[measured.Device]{
		one("busy_ratio", "Part of the driver's last period in which a device did anything, 0 to 1.", func(d measured.Device) *float64 {
			if d.BusyPercent == nil {
				return nil
			}
			return new(*d.BusyPercent / 100)
		}),
		one("memory_bytes", "Memory of a device that is in use.", func(d measured.Device) *float64 { return asFloat(d.MemoryBytes) }),
		one("memory_total_bytes", "Memory that a device has.", func(d measured.Device) *float64 { return asFloat(d.MemoryTotalBytes) }),
	}
}

// of adds a node to the metrics. It replaces an earlier node of the same name.
func (m *Metrics) of(s *Sampler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.samplers = append(slices.DeleteFunc(m.samplers, func(other *Sampler) bool { return other.cfg.Node == s.cfg.Node }), s)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	out <- m.failed
	describe(out, m.task)
	describe(out, m.node)
	describe(out, m.device)
}

// describe sends each description once: numbers with the same one are adjacent.
func describe[T any](out chan<- *prometheus.Desc, metrics []number[T]) {
	for i, one := range metrics {
		if i == 0 || one.desc != metrics[i-1].desc {
			out <- one.desc
		}
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	samplers := slices.Clone(m.samplers)
	m.mu.Unlock()
	for _, s := range samplers {
		m.collect(out, s)
	}
}

// collect sends the metrics of one node.
func (m *Metrics) collect(out chan<- prometheus.Metric, s *Sampler) {
	node := s.cfg.Node
	out <- prometheus.MustNewConstMetric(m.failed, prometheus.CounterValue, float64(s.failures()), node)
	n := s.knownNode(time.Time{})
	show(out, m.node, n.Use, node)
	for _, d := range n.Devices {
		show(out, m.device, d, node, d.ID)
	}
	if m.NoTasks {
		return
	}
	for _, t := range s.known(time.Time{}) {
		show(out, m.task, t.Use, node, t.Namespace, t.Task, strconv.Itoa(t.Attempt))
	}
}

// show sends the known numbers of a T.
func show[T any](out chan<- prometheus.Metric, metrics []number[T], of T, labels ...string) {
	for _, one := range metrics {
		if value := one.of(of); value != nil {
			out <- prometheus.MustNewConstMetric(one.desc, one.kind, *value, slices.Concat(labels, one.last)...)
		}
	}
}
