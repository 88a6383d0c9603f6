package convert

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// unnamedImage stands for the image of a script that names none.
const unnamedImage = "docker.io/library/ubuntu:24.04"

// batch is what the options of a script ask for. A number is 0 if it is not given.
type batch struct {
	notes
	in *Input
	// line is the line of the present option.
	line int

	name, array           string
	nodes, tasks, perNode int
	cpus, cpusPerGPU      int
	// Memory and disk are in bytes.
	memory, memoryPerCPU, memoryPerGPU, disk int64

	gpus, gpusPerNode, gpusPerTask int
	model                          string

	run      time.Duration
	warn     string
	requeue  string // the option that is given
	priority int
	node     string
	port     int // at which the tasks meet
	dir      string
	chdir    string // an absolute directory of the nodes
	workdir  string
	image    string
	mounts   []*object
	env      *object
}

// fromSbatch converts a batch script.
func fromSbatch(in *Input) ([]*object, []Note, error) {
	text := string(in.Text)
	if strings.ContainsRune(text, 0) {
		return nil, nil, types.Errorf(types.Invalid, "contains a 0 byte: give the script itself")
	}
	b := &batch{in: in, env: newObject(), workdir: "."}
	s := newScript(strings.ReplaceAll(text, "\r\n", "\n"))
	for _, d := range s.directives() {
		b.directive(d)
	}
	s.containers(b)
	if b.name == "" {
		b.name = b.nameOf(0, in.base())
	}
	shape := b.shape(s.hasSteps())
	body, err := s.body(b, shape)
	if err != nil {
		return nil, nil, err
	}
	return []*object{b.job(shape, body)}, b.notes, nil
}

// directive is a line with options.
type directive struct {
	line int
	text string
	// late reports whether it is behind the first command: sbatch ignores it.
	late bool
}

// directive applies the options of a line.
func (b *batch) directive(d directive) {
	if d.late {
		b.dropped(d.line, "#SBATCH "+d.text, "sbatch ignores options behind the first command, too: move it up")
		return
	}
	b.line = d.line
	words := splitWords(d.text)
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word == "hetjob" || word == "packjob" {
			b.dropped(d.line, "#SBATCH "+word, "the options that follow count for the same job: write a job for each component, each with its count")
			continue
		}
		o, value, given := findOption(word)
		if o == nil {
			b.dropped(d.line, word, "sbatch has no such option that Escher knows of: write its counterpart by hand, escher explain job lists the fields")
			continue
		}
		if o.value == needed && !given && i+1 < len(words) {
			i++
			value = words[i]
		}
		o.apply(b, value)
	}
}

// shape is how a job divides into tasks.
type shape struct {
	// count is the number of tasks, nodes the number of nodes, share the number of tasks on each.
	count, nodes, share int
	// steps reports whether srun starts the tasks.
	steps bool

	cpus   int
	memory int64
	gpu    string
}

// shape divides the job: with srun, into the tasks that it starts; without, a script runs once on
// each node.
func (b *batch) shape(steps bool) shape {
	s := shape{nodes: max(b.nodes, 1), steps: steps}
	tasks := b.tasks
	if tasks == 0 {
		tasks = s.nodes * max(b.perNode, 1)
	}
	if tasks < s.nodes {
		tasks = s.nodes
	}
	perNode := cmp.Or(b.perNode, (tasks+s.nodes-1)/s.nodes)
	perTask := max(b.cpus, 1)
	if steps {
		s.count, s.share, s.cpus = tasks, perNode, perTask
	} else {
		s.count, s.share, s.cpus = s.nodes, 1, perTask*perNode
	}
	gpus := 0 // of a task
	switch within := perNode / s.share; {
	case b.gpusPerTask > 0:
		gpus = b.gpusPerTask * max(within, 1)
		s.gpu = strconv.Itoa(gpus)
	case b.gpusPerNode > 0:
		gpus, s.gpu = b.part(b.gpusPerNode, s.share)
	case b.gpus > 0:
		gpus, s.gpu = b.part(b.gpus, s.count)
	}
	if b.cpusPerGPU > 0 && b.cpus == 0 {
		s.cpus = b.cpusPerGPU * max(gpus, 1)
	}
	switch {
	case b.memory > 0:
		s.memory = b.memory / int64(s.share)
		if s.share > 1 {
			b.add(0, "--mem="+sizeText(b.memory), "it is that of a node: each of its %d tasks asks for its part, %s", s.share, sizeText(s.memory))
		}
	case b.memoryPerCPU > 0:
		s.memory = b.memoryPerCPU * int64(s.cpus)
	case b.memoryPerGPU > 0:
		s.memory = b.memoryPerGPU * int64(max(gpus, 1))
	}
	return s
}

// part divides devices among tasks. Several tasks may share one.
func (b *batch) part(gpus, tasks int) (whole int, amount string) {
	switch {
	case gpus%tasks == 0:
		return gpus / tasks, strconv.Itoa(gpus / tasks)
	case gpus < tasks:
		b.add(0, "the number of GPUs", "%d for %d tasks: several tasks share one, each with a part of it: give each task its own with gpu: 1", gpus, tasks)
		return 1, strconv.Itoa(1000*gpus/tasks) + "m"
	}
	b.add(0, "the number of GPUs", "%d GPUs do not divide by %d tasks, each has %d here: correct count or gpu", gpus, tasks, gpus/tasks)
	return gpus / tasks, strconv.Itoa(gpus / tasks)
}

// gang reports whether the tasks run together.
func (s *shape) gang() bool { return s.count > 1 }

// job returns the job.
func (b *batch) job(s shape, program *object) *object {
	job := document(manifest.KindJob, b.name)
	switch {
	case b.array != "" && s.gang():
		b.dropped(0, "--array="+b.array, "the job has %d tasks that run together, and an array has one task for each index: submit the file once for each index, with env: {SLURM_ARRAY_TASK_ID: …}", s.count)
	case b.array != "":
		job.set("array", b.arrayOf())
	}
	if s.gang() {
		job.set("count", s.count)
		gang := flow()
		if b.nodes > 0 {
			gang.set("perNode", s.share)
		}
		if b.requeue == "requeue" {
			gang.set("onLoss", "restart")
		}
		job.set("gang", gang)
	}
	task := newObject()
	task.set("requests", b.requests(s))
	some(task, "priority", b.priority)
	if b.run > 0 {
		task.set("maxRun", durationText(b.run))
	}
	if b.requeue == "no-requeue" {
		task.set("onDisconnect", types.StopLost.String())
	}
	if b.image == "" {
		b.image = cmp.Or(b.in.Image, unnamedImage)
		if b.in.Image == "" {
			b.add(0, "the script names no image", "%s stands for the machine that it expects: give --image, of an image with its programs", unnamedImage)
		}
	}
	task.set("image", b.image)
	some(task, "warn", b.warn)
	if b.chdir != "" && len(b.mounts) == 0 {
		mount := flow()
		mount.set("source", b.chdir)
		mount.set("target", b.chdir)
		b.mounts = append(b.mounts, mount)
		b.add(0, "--chdir="+b.chdir, "it is mounted from the node, which must permit it (escher agent --allow-mount): with workdir: DIR the directory is sent instead")
	}
	list(task, "mounts", b.mounts)
	if b.workdir != "" {
		task.set("workdir", b.workdir)
		if !filepath.IsAbs(b.workdir) {
			task.comment("relative to this file")
		}
	}
	some(task, "dir", b.dir)
	if !b.env.empty() {
		task.set("env", b.env)
	}
	if b.port != 0 {
		port := flow()
		port.set("name", "peer")
		port.set("number", b.port)
		task.set("ports", []any{port})
	}
	task.node.Content = append(task.node.Content, program.node.Content...)
	job.set("template", task)
	return job
}

// requests returns the requests of a task.
func (b *batch) requests(s shape) *object {
	r := flow()
	r.set("cpu", s.cpus)
	if s.memory > 0 {
		r.set("memory", sizeText(s.memory))
	}
	if b.disk > 0 {
		r.set("disk", sizeText(b.disk))
	}
	if s.gpu != "" {
		var amount any = s.gpu
		if n, err := strconv.Atoi(s.gpu); err == nil {
			amount = n
		}
		if b.model != "" {
			long := flow()
			long.set("count", amount)
			long.set("model", b.model)
			amount = long
		}
		r.set("gpu", amount)
	}
	switch {
	case b.node != "" && s.gang():
		b.dropped(0, "--nodelist="+b.node, "%s", byNodes)
	case b.node != "":
		r.set("node/"+b.node, 1)
	}
	return r
}

// arrayOf returns the array of the option, such as 0-99%8.
func (b *batch) arrayOf() *object {
	indices, most, _ := strings.Cut(b.array, "%")
	array := flow()
	array.set("indices", indices)
	if n, err := strconv.Atoi(most); err == nil && n > 0 {
		array.set("atOnce", n)
	}
	return array
}

// script returns the program that runs the script: a script for a shell or python, or else the
// interpreter with the file, which the workdir has.
func (b *batch) script(text string, interpreter []string) (*object, error) {
	program := newObject()
	if len(interpreter) == 0 || manifest.Interprets(interpreter) {
		if !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool { return !isComment(line) }) {
			return nil, types.Errorf(types.Invalid, "has no command: write one below the #SBATCH lines")
		}
		program.set("run", text)
		return program, nil
	}
	if b.in.Name == Stdin || b.workdir == "" {
		return nil, types.Errorf(types.Invalid, "is a script for %s: give it as a file, and without --chdir, so that the container can have it", path.Base(interpreter[0]))
	}
	program.set("entrypoint", append(slices.Clone(interpreter), filepath.Base(b.in.Name)))
	return program, nil
}
