package workload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

// written writes files into a new directory and returns the path of the first, or of the directory if
// there are several.
func written(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(files) > 2 {
		return dir
	}
	return filepath.Join(dir, files[0])
}

const jobTitles = "submit_s,duration_s,tasks,gpus,cpu_milli,mem_mib,tenant,limit_s,priority,deadline_s\n"

func TestReadTableOfJobs(t *testing.T) {
	path := written(t, "jobs.csv", jobTitles+"60,30.5,4,0.5,2000,1024,lab-a,40,-3,900\n0,1,,1,,,,,,\n5,1,,1,,,,,,\n")
	jobs, machines, left, err := ReadJobs(path, 2)
	if err != nil || len(jobs) != 2 || left != 1 || machines != nil {
		t.Fatalf("%d jobs, %d left out, machines %v, %v", len(jobs), left, machines, err)
	}
	if j := jobs[0]; j.At != 0 || j.Runs != 1 || len(j.Tasks) != 1 || j.Tenant != "none" || j.Limit != 0 || j.Priority != 0 || j.Deadline != 0 {
		t.Errorf("the first is %+v", j)
	}
	j := jobs[1]
	if j.At != 60 || j.Runs != 30.5 || len(j.Tasks) != 4 || j.Tenant != "lab-a" || j.Limit != 40 || j.Priority != -3 || j.Deadline != 900 {
		t.Errorf("the second is %+v", j)
	}
	if r := j.Tasks[3]; r.Get("gpu") != 500 || r.Get("cpu") != 2000 || r.Get("memory") != 1<<30 {
		t.Errorf("a task requests %v", r)
	}
}

// TestWrongTableOfJobs: an error has the line, the field, the value and the remedy.
func TestWrongTableOfJobs(t *testing.T) {
	for row, want := range map[string]string{
		"abc,1,,1,,,,,,":                        `jobs.csv:3: submit_s: "abc" is not a number of seconds`,
		",1,,1,,,,,,":                           `jobs.csv:3: submit_s: ""`,
		"-1,1,,1,,,,,,":                         `submit_s: "-1"`,
		"NaN,1,,1,,,,,,":                        `submit_s: "NaN"`,
		"0,0,,1,,,,,,":                          `duration_s: "0"`,
		"0,1e9,,1,,,,,,":                        `duration_s: "1e9"`,
		"0,1,0,1,,,,,,":                         `tasks: "0" is not a number from 1 to 1024: correct it`,
		"0,1,1025,1,,,,,,":                      `tasks: "1025"`,
		"0,1,,1e7,,,,,,":                        `gpus: "1e7"`,
		"0,1,,,2e9,,,,,":                        `cpu_milli: "2e9"`,
		"0,1,,,,-5,,,,":                         `mem_mib: "-5"`,
		"0,1,,1,,,a b,,,":                       `tenant: "a b" is not a name`,
		"0,1,,1,,,a/b,,,":                       `tenant: "a/b" is not a name`,
		"0,10,,1,,,,9,,":                        `limit_s: "9" is less than duration_s`,
		"0,1,,1,,,,,1001,":                      `priority: "1001"`,
		"0,1,,1,,,,,,1e99":                      `deadline_s: "1e99"`,
		"0,1,,,,,,,,":                           `gpus, cpu_milli, mem_mib: a task requests nothing`,
		"0,1":                                   "wrong number of fields; correct the row",
		"0,\"1,,1,,,,,,":                        "correct the row",
		strings.Repeat("7", 99) + ",1,,1,,,,,,": `submit_s: "` + strings.Repeat("7", maxQuoted) + `…"`,
	} {
		_, _, _, err := ReadJobs(written(t, "jobs.csv", jobTitles+"0,1,,1,,,,,,\n"+row+"\n"), 10)
		if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", row, err, want)
		}
	}
	for name, text := range map[string]string{"no titles": "", "a column is missing": "submit_s,tasks\n0,1\n", "no rows": jobTitles} {
		if _, _, _, err := ReadJobs(written(t, "jobs.csv", text), 10); !types.Is(err, types.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, _, err := ReadJobs(filepath.Join(t.TempDir(), "none"), 10); !types.Is(err, types.NotFound) {
		t.Errorf("a missing file: %v", err)
	}
	var many strings.Builder
	many.WriteString("submit_s,duration_s,gpus,tenant\n")
	for i := range maxTenants + 1 {
		many.WriteString("0,1,1,t" + strings.Repeat("x", i%50) + string(rune('a'+i/50)) + "\n")
	}
	if _, _, _, err := ReadJobs(written(t, "jobs.csv", many.String()), 1000); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "256 tenants") {
		t.Errorf("too many tenants: %v", err)
	}
}

// TestReadTrace: rows of a gang are one job, other tasks one each; jobs without duration are left out.
func TestReadTrace(t *testing.T) {
	const titles = "job,instances,submit_s,duration_s,cpu_milli,mem_mib,gpus,gpu_milli,gpu_model,gang_size,tenant\n"
	dir := written(t, "nodes.csv", "node,cpu_milli,mem_mib,gpus,gpu_model\nn1,8000,1024,2,T4\nn2,8000,1024,2,\n",
		"tasks.csv", titles+"g,2,50,10,1000,,2,1000,,3,a\ng,1,50,20,1000,,1,1000,,3,a\nx,3,7,5,1000,,,,,1,\nm,1,8,5,,,1,500,T4,1,b\nnever,1,9,,1000,,,,,1,\nbig,5000,9,1,1000,,,,,5000,\n")
	jobs, machines, left, err := ReadJobs(dir, 10)
	if err != nil || len(jobs) != 5 || left != 5001 || len(machines) != 2 {
		t.Fatalf("%d jobs, %d left out, %d machines, %v", len(jobs), left, len(machines), err)
	}
	if g := jobs[4]; len(g.Tasks) != 3 || g.Runs != 20 || g.Tenant != "a" || g.Limit != 23 || g.Tasks[2].Get("gpu") != 1000 {
		t.Errorf("the gang is %+v", g)
	}
	constraint := Constraint([]string{"T4"})
	if m := jobs[3]; m.Tasks[0].Get(constraint) != 500 || machines[0].Get(constraint) != 2000 || machines[1].Get(constraint) != 0 {
		t.Errorf("a job for a model is %+v, on %v", m, machines)
	}
	if jobs, _, left, err := ReadJobs(dir, 2); err != nil || len(jobs) != 2 || left != 5004 {
		t.Errorf("of two: %d jobs, %d left out, %v", len(jobs), left, err)
	}
}
