package convert

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// valued says whether an option has a value.
type valued int

const (
	needed   valued = iota // as the next word, or behind =
	optional               // behind = alone
	none
)

// option is an option of sbatch.
type option struct {
	long  string
	short string
	value valued
	// set takes its value. nil means that Escher lacks it.
	set func(b *batch, value string) error
	// instead says what to do instead; empty means that it changes nothing about the job.
	instead string
}

// apply takes the value of the option, or notes that it is dropped.
func (o *option) apply(b *batch, value string) {
	key := "--" + o.long
	if value != "" {
		key += "=" + value
	}
	if o.set == nil {
		if o.instead != "" {
			b.dropped(b.line, key, "%s", o.instead)
		}
		return
	}
	if o.value == needed && value == "" {
		b.dropped(b.line, key, "it has no value: give one")
		return
	}
	if err := o.set(b, value); err != nil {
		b.dropped(b.line, key, "%s", err)
	}
}

// findOption returns the option of a word, with the value that the word has: --nodes=2, -N2.
func findOption(word string) (o *option, value string, given bool) {
	all := options()
	if long, ok := strings.CutPrefix(word, "--"); ok {
		long, value, given = strings.Cut(long, "=")
		for i := range all {
			if all[i].long == strings.ReplaceAll(long, "_", "-") {
				return &all[i], value, given
			}
		}
		return nil, "", false
	}
	if len(word) < 2 || word[0] != '-' {
		return nil, "", false
	}
	for i := range all {
		if all[i].short == word[1:2] {
			value = strings.TrimPrefix(word[2:], "=")
			return &all[i], value, value != ""
		}
	}
	return nil, "", false
}

// Remedies that several options share.
const (
	byLogs     = "Escher keeps the output: escher logs NAME, with --stderr for errors alone"
	byNodes    = "Escher decides by requests: name nodes with prefer: {of: [{node: …}]}, or request a resource that only they have (escher set-resource NAME inf --node …)"
	byDevices  = "count such devices with escher agent --device, and request them"
	bySubmit   = "it concerns the command sbatch alone"
	byTopology = "gang: {in: rack} keeps the tasks in one rack, and topology: numa the GPUs of a task on one NUMA node"
	byCPUs     = "Escher does not choose cores or sockets: requests: {cpu: …} is what counts"
	byStart    = "Escher has no start time: submit it then, or let it wait for a resource"
)

// options lists the options of sbatch that are known.
func options() []option {
	return append(converted(), append(lacked(), ignored()...)...)
}

// converted are the options with a counterpart.
func converted() []option {
	number := func(field func(*batch) *int) func(*batch, string) error {
		return func(b *batch, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 || n > manifest.MaxTasks {
				return fmt.Errorf("%q is not a number from 1 to %d: correct it", v, manifest.MaxTasks)
			}
			*field(b) = n
			return nil
		}
	}
	size := func(field func(*batch) *int64) func(*batch, string) error {
		return func(b *batch, v string) (err error) {
			*field(b), err = parseMemory(v)
			return err
		}
	}
	return []option{
		{long: "job-name", short: "J", set: func(b *batch, v string) error { b.name = b.nameOf(b.line, v); return nil }},
		{long: "nodes", short: "N", set: (*batch).setNodes},
		{long: "ntasks", short: "n", set: number(func(b *batch) *int { return &b.tasks })},
		{long: "ntasks-per-node", set: number(func(b *batch) *int { return &b.perNode })},
		{long: "tasks-per-node", set: number(func(b *batch) *int { return &b.perNode })},
		{long: "cpus-per-task", short: "c", set: number(func(b *batch) *int { return &b.cpus })},
		{long: "cpus-per-gpu", set: number(func(b *batch) *int { return &b.cpusPerGPU })},
		{long: "mem", set: size(func(b *batch) *int64 { return &b.memory })},
		{long: "mem-per-cpu", set: size(func(b *batch) *int64 { return &b.memoryPerCPU })},
		{long: "mem-per-gpu", set: size(func(b *batch) *int64 { return &b.memoryPerGPU })},
		{long: "tmp", set: size(func(b *batch) *int64 { return &b.disk })},
		{long: "gres", set: (*batch).setGres},
		{long: "gpus", short: "G", set: func(b *batch, v string) error { return b.setGPUs(&b.gpus, v) }},
		{long: "gpus-per-node", set: func(b *batch, v string) error { return b.setGPUs(&b.gpusPerNode, v) }},
		{long: "gpus-per-task", set: func(b *batch, v string) error { return b.setGPUs(&b.gpusPerTask, v) }},
		{long: "time", short: "t", set: (*batch).setTime},
		{long: "array", short: "a", set: (*batch).setArray},
		{long: "signal", set: (*batch).setSignal},
		{long: "requeue", value: none, set: func(b *batch, _ string) error { b.requeue = "requeue"; return nil }},
		{long: "no-requeue", value: none, set: func(b *batch, _ string) error { b.requeue = "no-requeue"; return nil }},
		{long: "chdir", short: "D", set: (*batch).setDir},
		{long: "workdir", set: (*batch).setDir},
		{long: "export", set: (*batch).setExport},
		{long: "nodelist", short: "w", set: (*batch).setNodelist},
		{long: "nice", value: optional, set: (*batch).setNice},
		{long: "container-image", set: func(b *batch, v string) error { b.image = enrootImage(v); return nil }},
		{long: "container-workdir", set: func(b *batch, v string) error { b.dir, b.workdir = v, ""; return nil }},
		{long: "container-mounts", set: (*batch).setMounts},
	}
}

// lacked are the options without a counterpart.
func lacked() []option {
	lack := func(short, instead string, value valued, longs ...string) (out []option) {
		for _, long := range longs {
			out = append(out, option{long: long, short: short, value: value, instead: instead})
		}
		return out
	}
	var all []option
	for _, some := range [][]option{
		lack("d", "it names a job of Slurm: after: {jobs: [NAME]} waits for a job of Escher, onFailure: run after any end, and each: true by index", needed, "dependency"),
		lack("o", byLogs, needed, "output"), lack("e", byLogs, needed, "error"), lack("", byLogs, needed, "open-mode"),
		lack("i", "a task has no input: mount the file, or send it with workdir", needed, "input"),
		lack("p", "for a queue, declare one and write queue: NAME; for certain nodes, request a resource that only they have (escher set-resource NAME inf --node …)", needed, "partition"),
		lack("A", "declare a fair share and write share: NAME/ACCOUNT/USER", needed, "account"),
		lack("q", "write priority: N, or a declared queue: NAME", needed, "qos"),
		lack("", "Escher sends no mail: escher wait NAME ends with the job, and escher events -f follows it", needed, "mail-type", "mail-user"),
		lack("", "request all of the cpu of a node, or use apart: {} so that the tasks of the job do not share one", optional, "exclusive"),
		lack("s", "tasks share nodes, and never what they request", optional, "oversubscribe"), lack("", "tasks share nodes, and never what they request", none, "share"),
		lack("C", "for a model of GPU write gpu: {count: N, model: …}; for other nodes request a resource that only they have (escher set-resource NAME inf --node …)", needed, "constraint"),
		lack("", byNodes, needed, "prefer", "cluster-constraint"), lack("x", byNodes, needed, "exclude"), lack("F", byNodes, needed, "nodefile"),
		lack("L", "declare a semaphore and write semaphore: NAME=N", needed, "licenses"),
		lack("", "request from a reservation of Escher: requests: {cpu@NAME: …}", needed, "reservation"),
		lack("b", byStart, needed, "begin"),
		lack("", "write deadline: 2h, or a time with its zone, deadline: 2026-01-02T15:04:05Z", needed, "deadline"),
		lack("H", "submit it later, or let it wait for a resource that is not there yet", none, "hold"),
		lack("", "labels: {…} describe a job", needed, "comment", "wckey", "admin-comment", "extra"),
		lack("", "write priority: N", needed, "priority"),
		lack("", byTopology, needed, "switches", "gpu-bind", "mem-bind", "cpu-bind", "tres-bind", "gres-flags", "segment"),
		lack("m", byTopology, needed, "distribution"), lack("", byTopology, none, "contiguous"),
		lack("", byTopology, none, "spread-job", "use-min-nodes"),
		lack("B", byCPUs, needed, "extra-node-info"), lack("S", byCPUs, needed, "core-spec"), lack("O", byCPUs, none, "overcommit"),
		lack("", byCPUs, needed, "hint", "threads-per-core", "ntasks-per-core", "ntasks-per-socket", "sockets-per-node", "cores-per-socket", "mincpus", "thread-spec", "cpu-freq"),
		lack("", "give --ntasks, or ntasks-per-node", needed, "ntasks-per-gpu"),
		lack("", "give --gpus-per-node", needed, "gpus-per-socket"), lack("", byDevices, needed, "tres-per-task", "gpu-freq", "network", "bb", "bbf"),
		lack("", "maxRun is the limit, and Escher starts no job with a shorter one: give --time", needed, "time-min"),
		lack("k", "gang: {onLoss: alone} lets the others run on", optional, "no-kill"),
		lack("", "ulimits: {…} limit the processes of a task", needed, "propagate"),
		lack("", "write image: NAME", needed, "container", "container-name", "container-id"),
		lack("", "Escher has no switch for it: leave it out", optional, "container-mount-home", "no-container-mount-home", "container-writable", "container-readonly", "container-remap-root", "no-container-remap-root"),
		lack("", "choose another cluster by escher --context", needed, "clusters"), lack("M", "choose another cluster by escher --context", needed, "cluster"),
		lack("", "write user: uid:gid", needed, "uid", "gid"),
		lack("", "write env: {…}", needed, "export-file"), lack("", "write env: {…}", optional, "get-user-env"),
		lack("", "escher top shows what tasks use", needed, "acctg-freq", "profile"),
		lack("", "forward a port: escher port-forward TASK PORT", optional, "x11"),
		lack("", "the agent of a node has no power or reboot settings", none, "reboot"), lack("", "the agent of a node has no power or reboot settings", needed, "power", "delay-boot"),
		lack("", "after: {…} says by onFailure what happens then", needed, "kill-on-invalid-dep"),
		lack("", "a task that exceeds its memory fails, alone", optional, "oom-kill-step"), lack("", "namespaces part users", needed, "mcs-label"),
	} {
		all = append(all, some...)
	}
	return all
}

// ignored are the options that change nothing about the job.
func ignored() []option {
	return []option{
		{long: "parsable", value: none}, {long: "quiet", short: "Q", value: none}, {long: "verbose", short: "v", value: none},
		{long: "test-only", value: none}, {long: "ignore-pbs", value: none}, {long: "immediate", short: "I", value: optional},
		{long: "wait", short: "W", value: none, instead: bySubmit + ": escher submit --attach waits"},
		{long: "wait-all-nodes"}, {long: "stepmgr", value: none},
		{long: "wrap", instead: bySubmit + ": write the command into the script"},
	}
}

func (b *batch) setNodes(v string) error {
	least, most, ranged := strings.Cut(v, "-")
	n, err := strconv.Atoi(least)
	if err != nil || n < 1 || n > manifest.MaxTasks {
		return fmt.Errorf("%q is not a number of nodes: correct it", v)
	}
	b.nodes = n
	if ranged {
		b.dropped(b.line, "the upper limit of --nodes="+v, "%d nodes count here: for %s, write count: %s and elastic: {min: %d} instead of the gang", n, most, most, n)
	}
	return nil
}

// setGres takes gpu:8, gpu:h100:8, or a list with them.
func (b *batch) setGres(v string) error {
	var other []string
	for _, one := range strings.Split(v, ",") {
		name, rest, _ := strings.Cut(strings.TrimPrefix(one, "gres/"), ":")
		if name != "gpu" {
			other = append(other, one)
			continue
		}
		if err := b.setGPUs(&b.gpusPerNode, cmp.Or(rest, "1")); err != nil {
			return err
		}
	}
	if len(other) > 0 {
		b.dropped(b.line, "--gres="+strings.Join(other, ","), byDevices)
	}
	return nil
}

// setGPUs takes 8 or h100:8.
func (b *batch) setGPUs(n *int, v string) error {
	model, count, typed := strings.Cut(v, ":")
	if !typed {
		model, count = "", v
	}
	count, _, _ = strings.Cut(count, "(") // (S:0-1) names sockets
	number, err := strconv.Atoi(count)
	if err != nil && !typed { // a model alone means one
		model, number, err = v, 1, nil
	}
	if err != nil || number < 0 || number > manifest.MaxTasks {
		return fmt.Errorf("%q is not a number of GPUs: correct it", v)
	}
	*n = number
	if model != "" {
		b.model = strings.ReplaceAll(model, "_", " ")
	}
	return nil
}

// setTime takes the forms of Slurm: minutes, m:s, h:m:s, d-h, d-h:m and d-h:m:s.
func (b *batch) setTime(v string) error {
	if strings.EqualFold(v, "unlimited") || strings.EqualFold(v, "infinite") || v == "0" {
		return nil
	}
	days, rest, hasDays := strings.Cut(v, "-")
	if !hasDays {
		days, rest = "0", v
	}
	parts := strings.Split(rest, ":")
	units := []time.Duration{time.Minute, time.Second}
	if hasDays || len(parts) == 3 {
		units = []time.Duration{time.Hour, time.Minute, time.Second}
	}
	d, err := strconv.Atoi(days)
	if err != nil || len(parts) > len(units) || d < 0 || d > 3650 {
		return fmt.Errorf("%q is not a time: write it such as 1-12:00:00", v)
	}
	total := time.Duration(d) * 24 * time.Hour
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > 10_000_000 {
			return fmt.Errorf("%q is not a time: write it such as 1-12:00:00", v)
		}
		total += time.Duration(n) * units[i]
	}
	b.run = total
	return nil
}

func (b *batch) setArray(v string) error {
	indices, _, _ := strings.Cut(v, "%")
	if _, err := manifest.Indices(indices).List(); err != nil {
		return fmt.Errorf("%w", err)
	}
	b.array = v
	return nil
}

// setSignal takes [R:][B:]SIGNAL[@SECONDS].
func (b *batch) setSignal(v string) error {
	name, seconds, given := strings.Cut(v[strings.LastIndex(v, ":")+1:], "@")
	if !given {
		seconds = "60"
	}
	warn, err := manifest.ParseWarn(name + "@" + seconds)
	if err != nil {
		return err
	}
	b.warn = strings.TrimPrefix(warn.Signal, "SIG") + "@" + seconds + "s"
	return nil
}

// setDir takes a directory: of the file system that all nodes share, or next to the script.
func (b *batch) setDir(v string) error {
	if !strings.HasPrefix(v, "/") {
		b.workdir = v
		return nil
	}
	b.dir, b.chdir, b.workdir = v, v, ""
	return nil
}

// setExport takes NONE, ALL, and NAME=value.
func (b *batch) setExport(v string) error {
	var unset []string
	for _, one := range strings.Split(v, ",") {
		name, value, given := strings.Cut(one, "=")
		switch {
		case given && name != "":
			b.env.set(name, value)
		case one != "NONE" && one != "NIL":
			unset = append(unset, one)
		}
	}
	if len(unset) > 0 {
		b.dropped(b.line, "--export="+strings.Join(unset, ","), "a task does not get the environment of the command that submits it: write env: {NAME: value}")
	}
	return nil
}

func (b *batch) setNodelist(v string) error {
	if types.ValidateName("node", v) != nil {
		return fmt.Errorf("%s", byNodes)
	}
	b.node = v
	return nil
}

func (b *batch) setNice(v string) error {
	n, err := strconv.Atoi(cmp.Or(v, "100"))
	if err != nil || n < -2147483645 || n > 2147483645 {
		return fmt.Errorf("%q is not a number: correct it", v)
	}
	b.priority = -n
	return nil
}

// setMounts takes SOURCE:TARGET[:ro], and a list of them.
func (b *batch) setMounts(v string) error {
	for _, one := range strings.Split(v, ",") {
		parts := strings.Split(one, ":")
		mount := flow()
		mount.set("source", parts[0])
		mount.set("target", parts[min(1, len(parts)-1)])
		if len(parts) > 2 && parts[2] == "ro" {
			mount.set("readOnly", true)
		}
		b.mounts = append(b.mounts, mount)
	}
	return nil
}

// enrootImage returns the image of a name of enroot, which has # behind the registry.
func enrootImage(v string) string {
	return strings.Replace(strings.TrimPrefix(v, "docker://"), "#", "/", 1)
}

// parseMemory reads an amount of memory of Slurm: a number with K, M, G or T, of 1024; M without.
func parseMemory(v string) (int64, error) {
	m := regexp.MustCompile(`^(?i)([0-9]{1,12})([KMGT]?)B?$`).FindStringSubmatch(v)
	if m == nil {
		return 0, fmt.Errorf("%q is not an amount of memory: write it such as 64G", v)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	shift := map[string]int{"K": 10, "": 20, "M": 20, "G": 30, "T": 40}[strings.ToUpper(m[2])]
	if err != nil || n > int64(1)<<(62-shift) {
		return 0, fmt.Errorf("%q is not an amount of memory: write it such as 64G", v)
	}
	if n == 0 {
		return 0, fmt.Errorf("0 means all memory of a node in Slurm: write requests: {memory: …}")
	}
	return n << shift, nil
}

// durationText returns a duration without units that are 0.
func durationText(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// sizeText returns a number of bytes as text, in the largest unit that divides it.
func sizeText(n int64) string {
	for i, unit := range []string{"Ti", "Gi", "Mi", "Ki"} {
		if size := int64(1) << (40 - 10*i); n%size == 0 {
			return strconv.FormatInt(n/size, 10) + unit
		}
	}
	return strconv.FormatInt(max(n>>20, 1), 10) + "Mi"
}
