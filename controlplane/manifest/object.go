package manifest

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/escher-sched/escher/controlplane/spelling"
)

// object decodes a value with fields.
func (d *decoder) object(n *yaml.Node, v reflect.Value, path string) {
	m, ok := d.members(n, v, path)
	if !ok {
		return
	}
	for _, f := range m.known {
		switch {
		case f.group:
			d.missingOf(f, m, below(path, f.name))
		case f.required && !m.given[f.name]:
			d.wrong(n, below(path, f.name), "is missing: give %s", f.desc)
		}
	}
}

// members are the fields of an object.
type members struct {
	object *yaml.Node
	path   string
	known  []field
	given  map[string]bool
	// group are the fields of the field that is a group, whose fields may be written beside it.
	group []field
	// in are the fields that are written in the group; nil means that it is not written.
	in *members
	// policies are the indices of fields that are policies.
	policies []int
	// restrictions are those of requests in long form.
	restrictions []Devices
}

// members decodes the fields of an object, and adds what short forms stand for. ok is false if it
// has none.
func (d *decoder) members(n *yaml.Node, v reflect.Value, path string) (m *members, ok bool) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, "%s is given: write fields%s", shown(n), suchAs(fields(v.Type())))
		return nil, false
	}
	m = &members{object: n, path: path, known: fields(v.Type()), given: make(map[string]bool)}
	for _, f := range m.known {
		if f.group {
			m.group = fields(v.Field(f.index).Type())
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		d.member(m, i, v)
	}
	switch x := v.Addr().Interface().(type) {
	case *Spec:
		if x.Run != "" && len(x.Entrypoint)+len(x.Command) == 0 {
			d.spelledRun(path, below(path, "run"))
		}
	case *Task:
		if x.Spec.deafScript() {
			d.notices = append(d.notices, Notice{n.Line, below(path, "warn") + ": the shell of run ignores the signal, and its commands do not get it: write exec before the last command, or trap it"})
		}
	}
	if len(m.restrictions) > 0 {
		devices := v.Addr().Interface().(restricted).restrictions()
		*devices = append(*devices, m.restrictions...)
	}
	if len(m.policies) > 0 {
		d.policiesByKey(n, m.policies, v, path)
		m.given["policy"] = true // of a shared policy
	}
	return m, true
}

// member decodes the field of m at an index.
func (d *decoder) member(m *members, i int, v reflect.Value) {
	key, value := m.object.Content[i], m.object.Content[i+1]
	at := below(m.path, key.Value)
	named := func(f field) bool { return f.name == key.Value }
	if known := slices.IndexFunc(m.known, named); known >= 0 {
		f := m.known[known]
		m.given[f.name] = true
		if _, ok := v.Addr().Interface().(restricted); ok && f.name == "requests" {
			value, m.restrictions = d.longForms(value, len(valueOf(m.object, "devices").Content), m.path)
		}
		if f.group && value.Tag != "!!null" {
			m.in, _ = d.members(value, v.Field(f.index), at)
			return
		}
		d.value(value, f, v, at)
		return
	}
	if known := slices.IndexFunc(m.group, named); known >= 0 {
		m.given[key.Value] = true
		d.beside(m, key, value, m.group[known], v)
		return
	}
	if d.known.isKey(v.Type(), key.Value) {
		m.policies = append(m.policies, i)
		return
	}
	d.wrong(key, at, "is unknown: %s", d.instead(key.Value, slices.Concat(m.known, m.group), v.Type(), m.path))
}

// beside decodes a field of the group that is written beside it.
func (d *decoder) beside(m *members, key, value *yaml.Node, f field, v reflect.Value) {
	at := slices.IndexFunc(m.known, func(f field) bool { return f.group })
	group, path := m.known[at], below(m.path, f.name)
	in := valueOf(m.object, group.name)
	if twice := keyAt(in, f.name); twice >= 0 {
		d.wrong(key, path, "is given in %s, too, in line %d: drop one", group.name, in.Content[twice].Line)
		return
	}
	d.spelled(below(m.path, group.name)+"."+f.name, path)
	if f.name == "run" {
		d.spelledRun(below(m.path, group.name), path)
	}
	d.value(value, f, v.Field(group.index), path)
}

// missingOf adds problems for missing fields of a group at a path. Without the group its fields are
// those of the object.
func (d *decoder) missingOf(group field, m *members, path string) {
	in := m.in
	switch {
	case in == nil && m.given[group.name]:
		return // told
	case in == nil:
		in = m
		d.spelled(path, m.path)
	}
	for _, f := range m.group {
		if f.required && !m.given[f.name] && !in.given[f.name] {
			d.wrong(in.object, below(in.path, f.name), "is missing: give %s", f.desc)
		}
	}
}

// value decodes the value of a field.
func (d *decoder) value(n *yaml.Node, f field, v reflect.Value, path string) {
	into, before := v.Field(f.index), len(d.problems)
	d.decode(n, into, path)
	if len(d.problems) == before {
		d.keeps(f, n, into, path)
	}
}

// suchAs returns an example of a field, if there is one.
func suchAs(known []field) string {
	if len(known) == 0 {
		return ""
	}
	return ", such as " + known[0].name + ": …"
}

// instead suggests a replacement for an unknown name in an object of a type at a path.
func (d *decoder) instead(name string, known []field, of reflect.Type, path string) string {
	if len(known) == 0 {
		return "this object has no fields: leave it out"
	}
	has := func(other string) bool {
		return slices.ContainsFunc(known, func(f field) bool { return f.name == other })
	}
	job := reflect.TypeFor[Job]()
	ofJob := name == "policies" || d.known.isKey(job, name)
	switch {
	case ofJob && has("spec") && path != "":
		return "it belongs to a job: write it beside template"
	case ofJob && has("spec"):
		return "it belongs to a job: write kind: Job, with the task as its template"
	case ofJob && of == reflect.TypeFor[SharedPolicy]() && d.known[name].Job:
		return misplaced(name, false)
	case of == job && slices.ContainsFunc(taskFields(), func(f field) bool { return f.name == name }):
		return "it belongs to a task: write it in template"
	case of == reflect.TypeFor[Spec]() && slices.ContainsFunc(fields(reflect.TypeFor[Task]()), func(f field) bool { return f.name == name }):
		return "it belongs to the task: write it beside spec, where the fields of spec may be, too"
	case of == job && d.known[name].Shared:
		return misplaced(name, true)
	case of == job && strings.Contains(name, "/"):
		return "write it in policies, as {name: " + name + ", with: {…}}"
	}
	if now := renamed(name); has(now) {
		return "it is called " + now + " now"
	}
	isTasks := func(other string) bool {
		return slices.ContainsFunc(taskFields(), func(f field) bool { return f.name == other })
	}
	switch here := otherSystems(name); {
	case here == "":
	case has(here):
		return "it is called " + here + " here"
	case of == job && isTasks(here):
		return "it is called " + here + " here: write it in template"
	}
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.name
	}
	return oneOf(name, append(names, d.known.keys(of)...))
}

// taskFields are the fields of a task, with those that may be written in spec.
func taskFields() []field {
	return slices.Concat(fields(reflect.TypeFor[Task]()), fields(reflect.TypeFor[Spec]()))
}

// oneOf suggests the most similar name, or all names.
func oneOf(name string, names []string) string {
	if like := near(name, names); like != "" {
		return "did you mean " + like + "?"
	}
	return "use " + strings.Join(names, ", ")
}

// near returns the most similar name, empty if none is similar.
func near(name string, names []string) string {
	meant, least := "", 0
	for _, n := range names {
		if away, near := spelling.Distance(name, n); near && (meant == "" || away < least) {
			meant, least = n, away
		}
	}
	return meant
}

// otherSystems returns the name of a field that Kubernetes, compose or Nomad call otherwise; empty for
// any other name.
func otherSystems(name string) string {
	switch name {
	case "replicas", "parallelism", "completions", "scale":
		return "count"
	case "args", "cmd":
		return "command"
	case "resources", "limits", "reservations":
		return "requests"
	case "environment", "envs":
		return "env"
	case "volumes", "volumeMounts", "volume_mount":
		return "mounts"
	case "restartPolicy", "restart_policy":
		return "restart"
	case "workingDir", "working_dir", "work_dir":
		return "dir"
	case "healthcheck", "livenessProbe", "readinessProbe", "startupProbe", "check":
		return "checks"
	case "terminationGracePeriodSeconds", "stop_grace_period", "kill_timeout":
		return "grace"
	case "activeDeadlineSeconds":
		return "maxRun"
	case "backoffLimit":
		return "retries"
	case "update_config", "strategy", "updateStrategy":
		return "update"
	}
	return ""
}

// renamed returns the present name of a renamed field, empty for any other.
func renamed(name string) string {
	if name == "onLoss" {
		return "onDisconnect"
	}
	return ""
}
