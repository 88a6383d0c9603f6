package workload

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/types"
)

// Submitted is a job of a workload, whose tasks begin together.
type Submitted struct {
	// At is when it is submitted, and Runs how long it runs, in seconds.
	At, Runs float64
	// Tasks are the requests of each of its tasks.
	Tasks []types.Requests
	// Tenant submits it.
	Tenant string
	// Limit is the declared limit of its run time, in seconds; 0 means that it is not known.
	Limit float64
	// Deadline is within how many seconds it must end; 0 means that it has none.
	Deadline float64
	Priority int
}

// The bounds of a table of jobs.
const (
	// maxSeconds bounds every time: three years.
	maxSeconds = 3 * 365 * 24 * 3600
	// maxGang bounds the tasks of a job.
	maxGang = 1024
	// maxTenants bounds the tenants.
	maxTenants = 256
	// maxPriority bounds priorities, either way.
	maxPriority = 1000
	// maxUnits bounds an amount: of devices, of thousandths of a core, of MiB.
	maxUnits = 1e9
)

// ReadJobs reads at most the first most jobs of a workload. A directory has tasks.csv, in the columns of
// EachWork, and nodes.csv: jobs whose duration is not known are left out, and every other one has a limit a
// tenth above its duration. A file is a table of jobs, and has no machines. It returns them in order of
// submission, and how many it left out. Invalid: a field is wrong; the error has line, field, value and
// remedy.
func ReadJobs(path string, most int) (jobs []Submitted, machines []types.Requests, left int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, 0, types.Errorf(types.NotFound, "workload: %q: %w: give a table of jobs (CSV), or a directory with nodes.csv and tasks.csv", path, err)
	}
	if info.IsDir() {
		jobs, machines, left, err = readTrace(path, most)
	} else {
		jobs, left, err = readTableOfJobs(path, most)
	}
	if err == nil && len(jobs) == 0 {
		err = types.Errorf(types.Invalid, "workload: %s has no job whose duration is known: add one", path)
	}
	slices.SortStableFunc(jobs, func(a, b Submitted) int { return cmp.Compare(a.At, b.At) })
	return jobs, machines, left, err
}

// readTableOfJobs reads a table with a row for each job.
func readTableOfJobs(path string, most int) (jobs []Submitted, left int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, types.Errorf(types.NotFound, "workload: %w", err)
	}
	t, err := readTable("workload: "+path, f, []string{"submit_s", "duration_s"})
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	known := make(requestSet)
	tenants := make(map[string]bool)
	for t.next() {
		if len(jobs) >= most {
			left++
			continue
		}
		jobs = append(jobs, t.job(known, tenants))
	}
	return jobs, left, t.err()
}

// job reads a row of a table of jobs.
func (t *table) job(known requestSet, tenants map[string]bool) Submitted {
	const times, amounts = "is not a number of seconds from 0 to 94608000, three years: correct it", "is not a number from 0 to 1e9: correct it, or leave it blank for none"
	j := Submitted{
		At:       t.must("submit_s", 0, maxSeconds, times),
		Runs:     t.must("duration_s", 0.001, maxSeconds, "is not a number of seconds from 0.001 to 94608000, three years: correct it"),
		Tenant:   cmp.Or(t.text("tenant"), "none"),
		Limit:    t.within("limit_s", 0, 0, maxSeconds, times+", or leave it blank if it is not known"),
		Deadline: t.within("deadline_s", 0, 0, maxSeconds, times+", or leave it blank for none"),
		Priority: int(t.within("priority", 0, -maxPriority, maxPriority, "is not a number from -1000 to 1000: correct it, or leave it blank for 0")),
	}
	if j.Limit > 0 && j.Limit < j.Runs {
		t.wrong("limit_s", t.text("limit_s"), "is less than duration_s, and the job would fail: raise it, or leave it blank if it is not known")
	}
	t.checkTenant(j.Tenant, tenants)
	n := int(t.within("tasks", 1, 1, maxGang, "is not a number from 1 to 1024: correct it, or leave it blank for 1"))
	w := Work{GPUMilli: 1, CPUMilli: int64(t.within("cpu_milli", 0, 0, maxUnits, amounts)), MemMiB: int64(t.within("mem_mib", 0, 0, maxUnits, amounts))}
	w.GPUs = int64(1000 * t.within("gpus", 0, 0, 1e6, "is not a number from 0 to 1e6: correct it, or leave it blank for none"))
	if len(t.errs) == 0 && w.GPUs == 0 && w.CPUMilli == 0 && w.MemMiB == 0 {
		line, _ := t.r.FieldPos(0)
		t.errs = append(t.errs, types.Errorf(types.Invalid, "%s:%d: gpus, cpu_milli, mem_mib: a task requests nothing: give one of them", t.path, line))
	}
	j.Tasks = slices.Repeat([]types.Requests{known.of(w)}, n)
	return j
}

// must is within for a field that must not be blank.
func (t *table) must(name string, least, most float64, rule string) float64 {
	if t.text(name) == "" {
		t.wrong(name, "", rule)
	}
	return t.within(name, 0, least, most, rule)
}

// checkTenant checks that a tenant is a name, and that there are not too many.
func (t *table) checkTenant(name string, tenants map[string]bool) {
	if tenants[name] {
		return
	}
	if types.ValidateName("tenant", name) != nil || strings.ContainsAny(name, "./") || len(name) > maxQuoted {
		t.wrong("tenant", name, "is not a name of at most 60 letters, digits and hyphens: correct it, or leave it blank")
	}
	if tenants[name] = true; len(tenants) > maxTenants {
		t.wrong("tenant", name, "is one more than the 256 tenants that a workload may have: let several have one name")
	}
}

// readTrace reads the jobs and machines of a directory.
func readTrace(dir string, most int) (jobs []Submitted, machines []types.Requests, left int, err error) {
	all, err := ReadMachines(dir)
	if err != nil {
		return nil, nil, 0, err
	}
	r := traceReader{most: most, known: make(requestSet), plan: Plan{Machines: all}}
	err = EachWork(dir, "tasks", func(w Work) error { r.add(w); return nil })
	for i := range all {
		machines = append(machines, r.plan.Node(i).Capacity)
	}
	return r.jobs, machines, r.left, err
}

// traceReader makes jobs of the rows of a trace.
type traceReader struct {
	most, left int
	jobs       []Submitted
	known      requestSet
	plan       Plan
	// gang is the job of the last row, if it is a gang.
	gang string
}

// add adds a row: a part of the gang of the row before, a gang, or as many jobs as it has tasks.
func (r *traceReader) add(w Work) {
	j := Submitted{At: w.Submit, Runs: w.Duration, Limit: limitOf(w.Duration), Tenant: cmp.Or(w.Tenant, "none")}
	last := len(r.jobs) - 1
	part := w.Gang > 1 && w.Job == r.gang && last >= 0
	has := 0
	if part {
		has = len(r.jobs[last].Tasks)
	}
	isGang := w.Gang > 1 && w.Instances <= maxGang-has
	if r.gang = ""; w.Duration <= 0 || w.Duration > maxSeconds || w.Submit > maxSeconds || w.Gang > 1 && !isGang || !part && len(r.jobs) >= r.most {
		r.left += w.Instances
		return
	}
	r.plan.constrain(w.Models)
	requests := r.known.of(w)
	switch {
	case part:
		was := &r.jobs[last]
		r.gang, was.Tasks = w.Job, append(was.Tasks, slices.Repeat([]types.Requests{requests}, w.Instances)...)
		was.Runs, was.Limit = max(was.Runs, w.Duration), max(was.Limit, j.Limit)
	case isGang:
		r.gang, j.Tasks = w.Job, slices.Repeat([]types.Requests{requests}, w.Instances)
		r.jobs = append(r.jobs, j)
	default:
		j.Tasks = []types.Requests{requests}
		n := min(w.Instances, r.most-len(r.jobs))
		r.jobs, r.left = append(r.jobs, slices.Repeat([]Submitted{j}, n)...), r.left+w.Instances-n
	}
}

// limitOf is a limit of a run time that is a tenth longer, at least a second.
func limitOf(runs float64) float64 { return 1.1*runs + time.Second.Seconds() }
