package workload

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

const (
	nodeTitles = "node,cpu_milli,mem_mib,gpus,gpu_model,gpu_mem_mib,rack,vc\n"
	taskTitles = "job,task_index,instances,submit_s,duration_s,cpu_milli,mem_mib,gpus,gpu_milli,gpu_model,tenant,gang_size,priority,more\n"
)

// directory makes a directory with both tables, the tasks compressed.
func directory(t *testing.T, nodes, tasks string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nodes.csv"), []byte(nodes), 0o644); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(tasks)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tasks.csv.gz"), packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPlan(t *testing.T) {
	p, err := ReadPlan(directory(t,
		nodeTitles+"a,8000,1024,2,T4,,r1,\nb,,,1,A10,,,\n",
		taskTitles+
			"late,0,2,100,5,500,64,0,0,,,1,,x\n"+
			"gang,0,1,7,,,,8,1000,,t,2,,x\ngang,1,1,7,9,,,4,1000,,t,2,,x\n"+
			"one,0,1,3,2,,,1,500,T4|A10,,1,,x\n"+
			"huge,0,9,3,2,,,1,500,T4|A10,,1,,x\n"), 5)
	if err != nil {
		t.Fatal(err)
	}
	if p.Left != 9 || len(p.Tasks) != 5 || len(p.Jobs) != 3 || p.Span() != 97 {
		t.Fatalf("got %+v", p)
	}
	want := []Job{{At: 3, First: 4, N: 1, name: "one"}, {At: 7, First: 2, N: 2, Gang: true, name: "gang"}, {At: 100, First: 0, N: 2, name: "late"}}
	if !slices.Equal(p.Jobs, want) {
		t.Errorf("got jobs %+v", p.Jobs)
	}
	if r := p.Tasks[4].Requests; r.Get("gpu") != 500 || r.Get("model.trace/T4-A10") != 500 || len(r) != 2 {
		t.Errorf("got %v", r)
	}
	if p.Tasks[2].Runs >= 0 || p.Tasks[3].Runs != 9 {
		t.Errorf("got %+v", p.Tasks)
	}
	a, b := p.Node(0), p.Node(1)
	if a.Capacity.Get("model.trace/T4-A10") != 2000 || a.Capacity.Get(string(types.CPU)) != 8000 || a.Label("rack") != "r1" {
		t.Errorf("got %+v", a)
	}
	if b.Capacity.Get("gpu") != 1000 || len(p.Devices(1).Devices) != 1 {
		t.Errorf("got %+v", b)
	}
}

func TestPlanErrors(t *testing.T) {
	node, task := nodeTitles+"a,1,1,1,,,,\n", taskTitles+"j,0,1,0,1,1,1,0,0,,,1,,\n"
	for _, x := range []struct {
		name, nodes, tasks string
		want               []string
	}{
		{"column", strings.Replace(node, "gpus,", "", 1), task, []string{"nodes.csv:1", "gpus", "missing"}},
		{"columns", node, strings.ReplaceAll(strings.ReplaceAll(task, "gang_size,", ""), "submit_s,", ""), []string{"tasks.csv.gz:1", "submit_s", "gang_size"}},
		{"number", node, strings.Replace(task, "j,0,1,0,1", "j,0,1,soon,1", 1), []string{"tasks.csv.gz:2", "submit_s", `"soon"`}},
		{"negative", strings.Replace(node, "a,1", "a,-1", 1), task, []string{"nodes.csv:2", "cpu_milli", `"-1"`}},
		{"row", node, task + "short\n", []string{"tasks.csv.gz", "line 3"}},
		{"name", strings.Replace(node, "a,1", "a/b,1", 1), task, []string{"nodes.csv:2", "a/b"}},
		{"empty", nodeTitles, task, []string{"nodes.csv", "no rows"}},
		{"none", node, taskTitles, []string{"no job"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, err := ReadPlan(directory(t, x.nodes, x.tasks), 10)
			if !types.Is(err, types.Invalid) {
				t.Fatalf("got %v", err)
			}
			for _, part := range x.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
	if _, err := ReadPlan(t.TempDir(), 10); !types.Is(err, types.NotFound) {
		t.Errorf("got %v", err)
	}
}
