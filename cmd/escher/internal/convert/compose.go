package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// project is a compose file.
type project struct {
	notes
	in *Input
	// budget is the number of values that the file may have further.
	budget int
	vars   *variables
}

// fromCompose converts a compose file: a job for each service.
func fromCompose(in *Input) ([]*object, []Note, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(in.Text, &root); err != nil {
		return nil, nil, types.Errorf(types.Invalid, "%s: correct the YAML", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	p := &project{in: in, budget: maxValues, vars: &variables{env: in.Env, unset: make(map[string]int)}}
	if len(root.Content) == 0 || !p.plain(root.Content[0], 0) {
		return nil, nil, types.Errorf(types.Invalid, "is no compose file: it has no services, holds more than %d values, or nests too deeply", maxValues)
	}
	if in.Read != nil {
		if text, err := in.Read(".env"); err == nil {
			_, p.vars.file = envFile(text)
		}
	}
	if err := p.vars.expandAll(root.Content[0]); err != nil {
		return nil, nil, types.Errorf(types.Invalid, "%w", err)
	}
	services := p.top(root.Content[0])
	if len(services) == 0 {
		return nil, nil, types.Errorf(types.Invalid, "has neither services nor #SBATCH lines: give a compose file or a batch script")
	}
	var docs []*object
	for _, s := range ordered(services) {
		docs = append(docs, p.service(s))
	}
	for _, name := range slices.Sorted(maps.Keys(p.vars.unset)) {
		p.add(p.vars.unset[name], "the variable "+name, "it is not set and empty here: set it, or write a value")
	}
	if len(services) > 1 {
		p.add(0, "names of services as hosts", "Escher has no names for tasks: with colocate: {with: [NAME]} services are on one node, at 127.0.0.1")
	}
	return docs, p.notes, nil
}

// ordered puts services behind those that they wait for: a job can only wait for one that exists.
func ordered(services []entry) []entry {
	var out []entry
	done := make(map[string]bool)
	var add func(s entry)
	add = func(s entry) {
		if done[s.key] {
			return
		}
		done[s.key] = true
		for _, d := range entries(field(s.value, "depends_on")) {
			if i := slices.IndexFunc(services, func(s entry) bool { return s.key == d.key }); i >= 0 && completed(d) {
				add(services[i])
			}
		}
		out = append(out, s)
	}
	for _, s := range services {
		add(s)
	}
	return out
}

// completed reports whether an entry of depends_on waits for the end of a service.
func completed(d entry) bool {
	return field(d.value, "condition").Value == "service_completed_successfully"
}

// maxValues bounds the values of a file, with aliases and merges expanded; maxDepth their nesting.
const (
	maxValues = 100_000
	maxDepth  = 50
)

// plain expands aliases and merges. It reports false if the file is too large then.
func (p *project) plain(n *yaml.Node, depth int) bool {
	if p.budget--; p.budget < 0 || depth > maxDepth {
		return false
	}
	if n.Kind == yaml.AliasNode {
		line := n.Line
		*n = *n.Alias
		n.Line = line
	}
	own := make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		one := *child
		own[i] = &one
		if !p.plain(&one, depth+1) {
			return false
		}
	}
	if n.Content = own; n.Kind == yaml.MappingNode {
		n.Content = merged(own)
	}
	return true
}

// merged returns the fields of an object with those that << adds.
func merged(fields []*yaml.Node) []*yaml.Node {
	var out, added []*yaml.Node
	has := make(map[string]bool)
	for i := 0; i+1 < len(fields); i += 2 {
		switch key, value := fields[i], fields[i+1]; {
		case key.Tag != "!!merge":
			out = append(out, key, value)
			has[key.Value] = true
		case value.Kind == yaml.SequenceNode:
			for _, one := range value.Content {
				added = append(added, one.Content...)
			}
		default:
			added = append(added, value.Content...)
		}
	}
	for i := 0; i+1 < len(added); i += 2 {
		if !has[added[i].Value] {
			has[added[i].Value] = true
			out = append(out, added[i], added[i+1])
		}
	}
	return out
}

// entry is a field of an object.
type entry struct {
	key   string
	line  int
	value *yaml.Node
}

// entries lists the fields of an object; of a list NAME=value and NAME, or NAME: value.
func entries(n *yaml.Node) (out []entry) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			out = append(out, entry{n.Content[i].Value, n.Content[i].Line, n.Content[i+1]})
		}
	case yaml.SequenceNode:
		for _, one := range n.Content {
			name, value, given := strings.Cut(one.Value, "=")
			node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Line: one.Line}
			if !given {
				node.Tag = "!!null"
			}
			out = append(out, entry{name, one.Line, node})
		}
	}
	return out
}

// field returns a field of an object, an empty value if it is missing.
func field(n *yaml.Node, name string) *yaml.Node {
	for _, e := range entries(n) {
		if n.Kind == yaml.MappingNode && e.key == name {
			return e.value
		}
	}
	return &yaml.Node{Line: n.Line}
}

// top reads the fields of the file, and returns the services.
func (p *project) top(root *yaml.Node) (services []entry) {
	for _, e := range entries(root) {
		switch {
		case e.key == "services" && e.value.Kind == yaml.MappingNode:
			services = entries(e.value)
		case e.key == "volumes": // a service that mounts one is told
		case e.key == "name" || e.key == "version" || strings.HasPrefix(e.key, "x-"):
		case e.key == "networks":
			p.dropped(e.line, e.key, "%s", remedies()["networks"])
		case e.key == "secrets" || e.key == "configs":
			p.dropped(e.line, e.key, "%s", remedies()[e.key])
		case e.key == "include":
			p.dropped(e.line, e.key, "convert these files, too")
		default:
			p.dropped(e.line, e.key, "Escher does not know it: leave it out")
		}
	}
	return services
}

// service is a service under conversion.
type service struct {
	*project
	name string
	// task has fields of the result, in the order of the file.
	task *object
	// fields by name, of which those that become one field wait for the end.
	requests             map[string]any
	model                string
	labels               *object
	image                string
	build                int // its line
	restart, after, env  *object
	update               *object
	mounts, tmpfs, ports []any
	workdir              *object
	count, pids          int
	entrypoint, command  []string
	noEntrypoint         bool
	privileged           bool
}

// service converts a service.
func (p *project) service(e entry) *object {
	s := &service{project: p, name: p.nameOf(e.line, e.key), task: newObject(), requests: make(map[string]any), env: newObject(), labels: newObject()}
	s.privileged = slices.ContainsFunc(entries(e.value), func(f entry) bool { return f.key == "privileged" && f.value.Value == "true" })
	handlers := s.handlers()
	for _, f := range entries(e.value) {
		key := fmt.Sprintf("services.%s.%s", e.key, f.key)
		handle, known := handlers[f.key]
		remedy, lacks := remedies()[f.key]
		switch {
		case f.value.Tag == "!!null" && f.key != "build":
		case known:
			if err := handle(f); err != nil {
				s.dropped(f.line, key, "%s", err)
			}
		case lacks:
			s.dropped(f.line, key, "%s", remedy)
		case strings.HasPrefix(f.key, "x-"):
		default:
			s.dropped(f.line, key, "Escher does not know it: write its counterpart by hand, escher explain task lists the fields")
		}
	}
	return s.document(e)
}

// document returns the job of the service.
func (s *service) document(e entry) *object {
	if s.image == "" {
		s.image = strings.ToLower(s.name) + ":latest"
	}
	if s.build > 0 {
		s.dropped(s.build, "services."+e.key+".build", "build image %s and load it: docker build -t %s . && docker save -o image.tar %s && escher image load image.tar", s.image, s.image, s.image)
	}
	job := document(manifest.KindJob, s.name)
	if !s.labels.empty() {
		job.set("labels", s.labels)
	}
	if s.count > 1 {
		job.set("count", s.count)
	}
	if s.update != nil {
		job.set("update", s.update)
	}
	if s.count > 1 && len(s.ports) > 0 {
		s.add(e.line, "the ports of "+e.key, "several tasks with one port cannot share a node: give names, ports: [http], for ports that the nodes choose")
	}
	if s.after != nil {
		job.set("after", s.after)
	}
	task := newObject()
	if r := s.requested(); !r.empty() {
		task.set("requests", r)
	}
	task.set("image", s.image)
	if len(s.entrypoint) > 0 || s.noEntrypoint && len(s.command) > 0 {
		task.set("entrypoint", append([]string{}, s.entrypoint...))
	}
	list(task, "command", s.command)
	if !s.env.empty() {
		task.set("env", s.env)
	}
	list(task, "ports", s.ports)
	list(task, "mounts", s.mounts)
	list(task, "tmpfs", s.tmpfs)
	if s.workdir != nil {
		task.set("workdir", s.workdir)
	}
	some(task, "pids", s.pids)
	if s.restart != nil {
		task.set("restart", s.restart)
	}
	task.node.Content = append(task.node.Content, s.task.node.Content...)
	job.set("template", task)
	return job
}

// requested returns the requests of the service.
func (s *service) requested() *object {
	r := flow()
	for _, name := range []string{"cpu", "memory", "gpu"} {
		amount, given := s.requests[name]
		if !given {
			continue
		}
		if name == "gpu" && s.model != "" {
			long := flow()
			long.set("count", amount)
			long.set("model", s.model)
			amount = long
		}
		r.set(name, amount)
	}
	return r
}
