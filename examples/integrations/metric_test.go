package integrations_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/types"
)

// prometheus answers each query with the same text.
type prometheus struct {
	mu     sync.Mutex
	answer string
	// during is called during each query.
	during func()
	// asked receives each query that was answered.
	asked chan string
}

// ServeHTTP answers a query.
func (p *prometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.during()
	if p.answer == "" {
		http.Error(w, "it is starting", http.StatusServiceUnavailable)
	} else {
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, p.answer)
	}
	select {
	case p.asked <- r.URL.Path + "?" + r.URL.Query().Get("query"):
	default:
	}
}

// says sets the answer.
func (p *prometheus) says(answer string, during func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer, p.during = answer, during
	for len(p.asked) > 0 {
		<-p.asked
	}
}

// value is an answer with a value.
func value(text string) string { return fmt.Sprintf(`{"metric":{},"value":[1764417000.1,%q]}`, text) }

// TestMetric makes licenses of what a metric leaves of ten, across kills and missing readings.
func TestMetric(t *testing.T) {
	w := newWorld(t, nil)
	metric := &prometheus{asked: make(chan string, 1)}
	server := httptest.NewServer(metric)
	t.Cleanup(server.Close)
	start := func() *process {
		return w.start("EVERY=0.01", "metric/metric.py", w.socket, namespace, "license", "10", server.URL, "sum(in_use)")
	}
	x := hollow.Task(100)
	x.Task.Requests = types.NewRequests(map[string]types.Quantity{"cpu": 100, "license": 1000})
	var tasks []controlplane.Submission
	for range 10 {
		tasks = append(tasks, x)
	}
	if _, err := w.client.Submit(t.Context(), controlplane.Job{Name: "licensed", Tasks: tasks}); err != nil {
		t.Fatal(err)
	}
	// until waits for a capacity, and a number of running tasks.
	until := func(capacity types.Quantity, running int) (revision int64) {
		t.Helper()
		v, err := w.cluster.Await(w.ctx, func(v *cluster.View) bool {
			pool := v.Pools[types.ResourceID(namespace+":license")]
			return pool != nil && pool.Info.V != nil && pool.Info.V.Capacity == capacity && len(hollow.Running(v, namespace)) == running
		})
		if err != nil {
			t.Fatal(err)
		}
		return v.Pools[types.ResourceID(namespace+":license")].Info.Mod
	}

	metric.says(value("10"), func() {})
	p := start()
	until(0, 0)
	metric.says(value("7.5"), func() {})
	until(2000, 2)
	if got, _ := next(w, metric.asked); got != "/api/v1/query?sum(in_use)" {
		t.Errorf("it asked %s", got)
	}
	// It is killed during a query, and again at once; what runs goes on.
	for range 3 {
		metric.says(value("4"), p.kill)
		p.rest()
		p = start()
	}
	metric.says(value("4"), func() {})
	set := until(6000, 6)
	for _, none := range []string{"", value("NaN"), value("+Inf") + "," + value("1"), "7", `{"value":[]}`} {
		metric.says(none, func() {})
		next(w, metric.asked)
		next(w, metric.asked) // it has ended the round of the first
		if again := until(6000, 6); again != set {
			t.Errorf("without a reading, it set the resource at revision %d, after %d", again, set)
		}
	}
	// Fewer licenses: none is taken away from a task.
	metric.says(value("9"), func() {})
	until(1000, 6)
	p.kill()
	p.rest()
}
