package parts

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/usage"
	"github.com/escher-sched/escher/scheduler"
)

// TestMetricsAreDocumented compares the table in docs/monitoring.md with the metrics.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `escher_") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	desc := regexp.MustCompile(`^Desc\{fqName: ("[^"]*"), help: ("(?:[^"\\]|\\.)*"), (?:unit: "[^"]*", )?constLabels: \{\}, variableLabels: \{([^}]*)\}\}$`)
	var are []string
	for _, c := range []prometheus.Collector{scheduler.NewMetrics(), nodeagent.NewMetrics(), usage.NewMetrics(), server.NewMetrics(), etcdstore.NewMetrics(), supervise.NewMetrics()} {
		for _, d := range described(c) {
			parts := desc.FindStringSubmatch(d.String())
			if parts == nil {
				t.Fatalf("cannot read %s", d)
			}
			name, err := strconv.Unquote(parts[1])
			help, err2 := strconv.Unquote(parts[2])
			if err != nil || err2 != nil || strings.Contains(parts[3], "task") && !strings.HasPrefix(name, "escher_task_") {
				t.Errorf("%s: %v, %v, or a label with tasks", d, err, err2)
			}
			are = append(are, fmt.Sprintf("| `%s` | %s | %s |", name, strings.ReplaceAll(parts[3], ",", ", "), help))
		}
	}
	slices.Sort(are)
	if !slices.Equal(said, are) {
		t.Errorf("the table of metrics in docs/monitoring.md is to be:\n%s", strings.Join(are, "\n"))
	}
}

// described returns the descriptions of all metrics of a collector.
func described(c prometheus.Collector) []*prometheus.Desc {
	ch := make(chan *prometheus.Desc)
	go func() {
		defer close(ch)
		c.Describe(ch)
	}()
	var all []*prometheus.Desc
	for d := range ch {
		all = append(all, d)
	}
	return all
}
