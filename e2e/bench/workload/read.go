// Package workload provides the clusters and requests of measurements: drawn from the openb trace,
// or read from a directory.
package workload

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// A workload is a directory with the history of a cluster: its machines in nodes.csv and its
// submissions in tasks.csv, each possibly compressed (.csv.gz).

// Machine is a row of nodes.csv. Unknown values are 0 or empty.
type Machine struct {
	Name                   string
	CPUMilli, MemMiB, GPUs int64
	// Model is the model of its devices.
	Model, Rack string
}

// Work is a row of tasks.csv: Instances identical tasks of a job.
type Work struct {
	Job       string
	Instances int
	// Submit is the time of its submission, in seconds from the beginning. Duration is the run time
	// of each of its tasks, in seconds; negative means unknown. Modelled reports whether it comes
	// from a model of the source (est_duration_s) rather than a measurement.
	Submit, Duration float64
	Modelled         bool
	// CPUMilli, MemMiB, GPUs and GPUMilli are the request of each task; GPUMilli is per device.
	CPUMilli, MemMiB, GPUs, GPUMilli int64
	// Models are the allowed models of its devices; none means any.
	Models []string
	// Gang is the number of tasks of the job that start together; 1 means that each starts alone.
	Gang int
	// Tenant submits it.
	Tenant string
}

// table reads rows by the names of their columns.
type table struct {
	path    string // behind what it is, for errors: trace: DIR/nodes.csv
	r       *csv.Reader
	columns map[string]int
	row     []string
	errs    []error
	close   func() error
}

// openTable opens NAME.csv or NAME.csv.gz in a directory, with its required columns; others are
// ignored. NotFound: there is neither. Invalid: columns are missing; the error names them.
func openTable(dir, name string, must ...string) (*table, error) {
	path := filepath.Join(dir, name+".csv")
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		path += ".gz"
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, types.Errorf(types.NotFound, "trace: %s has neither %s.csv nor %s.csv.gz: %w; name a directory with both tables", dir, name, name, err)
	}
	t, err := readTable("trace: "+path, f, must)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}

// readTable reads the column names of a table.
func readTable(path string, f io.ReadCloser, must []string) (*table, error) {
	var in io.Reader = bufio.NewReaderSize(f, 1<<16)
	if strings.HasSuffix(path, ".gz") {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, types.Errorf(types.Invalid, "%s: %w; compress it with gzip", path, err)
		}
		in = unzipped
	}
	t := &table{path: path, r: csv.NewReader(&boundedReader{in, maxTable}), columns: make(map[string]int), close: f.Close}
	t.r.ReuseRecord = true
	titles, err := t.r.Read()
	if err != nil {
		return nil, types.Errorf(types.Invalid, "%s:1: no titles: %w; begin with a row of them", path, err)
	}
	for i, title := range titles {
		t.columns[strings.Clone(strings.TrimSpace(title))] = i
	}
	var missing []string
	for _, name := range must {
		if _, ok := t.columns[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, types.Errorf(types.Invalid, "%s:1: column %s missing: add it, blank where it is not known", path, strings.Join(missing, ", "))
	}
	return t, nil
}

// boundedReader fails after left bytes: a table may be packed, or a device that never ends.
type boundedReader struct {
	io.Reader
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, types.Errorf(types.Invalid, "it has more than %d MiB: give a part of it", maxTable>>20)
	}
	return n, err
}

// next advances to the next row; false at the end, or when err is set.
func (t *table) next() bool {
	if len(t.errs) > 0 {
		return false
	}
	row, err := t.r.Read()
	if errors.Is(err, io.EOF) {
		return false
	}
	if err != nil {
		t.errs = append(t.errs, types.Errorf(types.Invalid, "%s: %w; correct the row", t.path, err))
		return false
	}
	t.row = row
	return true
}

// err returns the errors, and closes the file.
func (t *table) err() error { return errors.Join(append(t.errs, t.close())...) }

// text returns a field of the row; empty if there is no such column.
func (t *table) text(name string) string {
	i, ok := t.columns[name]
	if !ok {
		return ""
	}
	return strings.Clone(strings.TrimSpace(t.row[i]))
}

// wrong records an unreadable field, with its line, and the rule that it breaks.
func (t *table) wrong(name, value, rule string) {
	line, _ := t.r.FieldPos(t.columns[name])
	if len(value) > maxQuoted {
		value = value[:maxQuoted] + "…"
	}
	t.errs = append(t.errs, types.Errorf(types.Invalid, "%s:%d: %s: %q %s", t.path, line, name, value, rule))
}

const (
	// maxQuoted bounds how much of a wrong field an error repeats, in bytes.
	maxQuoted = 60
	// maxNumber bounds every number of a table, far above any real one: amounts that are derived
	// from it do not overflow.
	maxNumber = 1e12
	// maxTable bounds a table, unpacked, in bytes.
	maxTable = 256 << 20
)

// number returns a field of the row as a number that is not negative; blank is the value of an
// empty field.
func (t *table) number(name string, blank float64) float64 {
	return t.within(name, blank, 0, maxNumber, "is not a number from 0 to 1e12: correct it, or leave it blank")
}

// within returns a field of the row as a number from least to most; blank is the value of an empty
// field.
func (t *table) within(name string, blank, least, most float64, rule string) float64 {
	value := t.text(name)
	if value == "" {
		return blank
	}
	x, err := strconv.ParseFloat(value, 64)
	if err != nil || !(x >= least && x <= most) { // NaN is neither
		t.wrong(name, value, rule)
		return blank
	}
	return x
}

// integer is number for counts.
func (t *table) integer(name string, blank int64) int64 { return int64(t.number(name, float64(blank))) }

// ReadMachines reads nodes.csv of a directory.
func ReadMachines(dir string) (out []Machine, err error) {
	t, err := openTable(dir, "nodes", "node", "cpu_milli", "mem_mib", "gpus", "gpu_model")
	if err != nil {
		return nil, err
	}
	for t.next() {
		m := Machine{
			Name: t.text("node"), CPUMilli: t.integer("cpu_milli", 0), MemMiB: t.integer("mem_mib", 0), GPUs: t.integer("gpus", 0),
			Model: t.text("gpu_model"), Rack: t.text("rack"),
		}
		if err := types.ValidateName("node", m.Name); err != nil {
			line, _ := t.r.FieldPos(t.columns["node"])
			t.errs = append(t.errs, types.Errorf(types.Invalid, "%s:%d: %w", t.path, line, err))
		}
		out = append(out, m)
	}
	if err := t.err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, types.Errorf(types.Invalid, "%s has no rows: name at least one node", t.path)
	}
	return out, nil
}

// EachWork reads tasks.csv of a directory, row by row.
func EachWork(dir, name string, do func(Work) error) error {
	t, err := openTable(dir, name, "job", "instances", "submit_s", "duration_s", "cpu_milli", "mem_mib", "gpus", "gpu_milli", "gpu_model", "gang_size")
	if err != nil {
		return err
	}
	for t.next() {
		w := Work{
			Job: t.text("job"), Instances: int(t.integer("instances", 1)), Submit: t.number("submit_s", 0), Duration: t.number("duration_s", -1),
			CPUMilli: t.integer("cpu_milli", 0), MemMiB: t.integer("mem_mib", 0), GPUs: t.integer("gpus", 0), GPUMilli: t.integer("gpu_milli", 1000),
			Models: models(t.text("gpu_model")), Gang: int(t.integer("gang_size", 1)), Tenant: t.text("tenant"),
		}
		if estimate := t.number("est_duration_s", -1); w.Duration < 0 && estimate >= 0 {
			w.Duration, w.Modelled = estimate, true
		}
		if len(t.errs) > 0 {
			break
		}
		if err := do(w); err != nil {
			return errors.Join(err, t.close())
		}
	}
	return t.err()
}

// models parses a constraint: a|b means either.
func models(text string) []string {
	if text == "" {
		return nil
	}
	var out []string
	for _, m := range strings.Split(text, "|") {
		if m != "" {
			out = append(out, m)
		}
	}
	return out
}

// Constraint is the name of the physical resource that counts the devices of these models on a
// node: a task that needs one of them requests it along with the devices.
func Constraint(models []string) string {
	name := strings.Join(models, "-")
	if types.ValidateName("model", name) != nil { // long, or with other letters
		h := fnv.New64a()
		_, _ = h.Write([]byte(name)) // It never fails.
		name = fmt.Sprintf("%016x", h.Sum64())
	}
	return "model.trace/" + name
}
