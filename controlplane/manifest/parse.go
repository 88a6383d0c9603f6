package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/escher-sched/escher/types"
)

// Document is one document of a file. Only the field of its kind is set.
type Document struct {
	Kind        Kind
	Task        *Task
	Job         *Job
	Resource    *Resource
	Reservation *Reservation
	Policy      *SharedPolicy
	Namespace   *Namespace
	Right       *Right

	// Line is its first line, counted from 1.
	Line int
	// Notices are about former names, which work until the next release, and what hardly works as meant.
	Notices []Notice
	root    *yaml.Node
}

// Notice is a notice about a line.
type Notice struct {
	Line int
	Text string
}

// Name returns the name, empty if it has none.
func (d *Document) Name() string {
	switch d.Kind {
	case KindTask:
		return d.Task.Name
	case KindJob:
		return d.Job.Name
	case KindResource:
		return d.Resource.Name
	case KindReservation:
		return d.Reservation.Name
	case KindPolicy:
		return d.Policy.Name
	case KindNamespace:
		return d.Namespace.Name
	case KindRight:
		return d.Right.Name
	}
	return ""
}

// String returns kind and name, for messages.
func (d *Document) String() string {
	return strings.TrimSpace(strings.ToLower(string(d.Kind)) + " " + d.Name())
}

// header is the common beginning of every document.
type header struct {
	APIVersion string `json:"apiVersion" desc:"escher.dev/v1"`
	Kind       Kind   `json:"kind" desc:"Task, Job, Resource, Reservation, Policy, Namespace or Right"`
}

// Parse decodes the documents of a file, YAML or JSON, and does every check that needs no cluster.
// Invalid: the error has a line for each problem, which begins with file and line; file serves only
// that. known are the known policies.
func Parse(file string, text []byte, known Policies) ([]Document, error) {
	var docs []Document
	var errs []error
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for len(errs) < types.MaxProblems {
		var root yaml.Node
		err := decoder.Decode(&root)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			line, what := syntax(err)
			errs = append(errs, types.Errorf(types.Invalid, "%s:%d: %s: correct the YAML", file, line, what))
			break
		}
		if root.Kind != yaml.DocumentNode || len(root.Content) == 0 || root.Content[0].Tag == "!!null" {
			continue
		}
		doc, problems := parse(root.Content[0], known)
		for _, p := range problems {
			errs = append(errs, types.Errorf(types.Invalid, "%s:%d: %s", file, p.line, p.at()))
		}
		docs = append(docs, doc)
	}
	if len(docs) == 0 && len(errs) == 0 {
		errs = append(errs, types.Errorf(types.Invalid, "%s: has no document: write at least one document with apiVersion: %s and a kind", file, APIVersion))
	}
	if len(errs) == 0 {
		errs = twice(file, docs)
	}
	if len(errs) >= types.MaxProblems {
		errs = append(errs[:types.MaxProblems:types.MaxProblems], types.Errorf(types.Invalid, "%s: may have further problems: correct these first", file))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, types.Errorf(types.Invalid, "%w", err)
	}
	return docs, nil
}

func (p problem) at() string {
	if p.path == "" {
		return p.text
	}
	return p.path + ": " + p.text
}

// syntax splits an error of the YAML parser into line and text.
func syntax(err error) (line int, what string) {
	what = strings.TrimPrefix(err.Error(), "yaml: ")
	rest, ok := strings.CutPrefix(what, "line ")
	number, message, cut := strings.Cut(rest, ": ")
	if n, err := strconv.Atoi(number); ok && cut && err == nil {
		return n, message
	}
	return 1, what
}

// twice checks that no object is described twice.
func twice(file string, docs []Document) []error {
	var errs []error
	lines := make(map[string]int)
	for i := range docs {
		d := &docs[i]
		if d.Name() == "" {
			continue
		}
		if line, ok := lines[d.String()]; ok {
			errs = append(errs, types.Errorf(types.Invalid, "%s:%d: %s is described twice, first in line %d: rename one, or drop it", file, d.Line, d, line))
			continue
		}
		lines[d.String()] = d.Line
	}
	return errs
}

// parse decodes one document.
func parse(root *yaml.Node, known Policies) (Document, []problem) {
	doc := Document{Line: root.Line, root: root}
	d := &decoder{known: known}
	if !d.plain(root, "") || len(d.problems) > 0 {
		return doc, d.problems
	}
	if root.Kind != yaml.MappingNode {
		d.wrong(root, "", "%s is given: write fields, apiVersion: %s and kind first", shown(root), APIVersion)
		return doc, d.problems
	}
	var head header
	d.object(part(root, true), reflect.ValueOf(&head).Elem(), "")
	if len(d.problems) > 0 {
		return doc, d.problems
	}
	if head.APIVersion != APIVersion {
		d.wrong(root, "apiVersion", "%q is unknown: %s", head.APIVersion, versionInstead(head.APIVersion))
		return doc, d.problems
	}
	doc.Kind = head.Kind
	target := doc.target()
	if target == nil {
		d.wrong(root, "kind", "%q is unknown: write Task, Job, Resource, Reservation, Policy, Namespace or Right", string(head.Kind))
		return doc, d.problems
	}
	d.shared = doc.Kind == KindPolicy
	d.object(part(root, false), reflect.ValueOf(target).Elem(), "")
	if len(d.problems) == d.values {
		d.check(&doc)
	}
	doc.Notices = d.notices
	return doc, d.problems
}

// part returns the fields of the header, or the others.
func part(root *yaml.Node, head bool) *yaml.Node {
	out := *root
	out.Content = nil
	for i := 0; i+1 < len(root.Content); i += 2 {
		name := root.Content[i].Value
		if (name == "apiVersion" || name == "kind") == head {
			out.Content = append(out.Content, root.Content[i], root.Content[i+1])
		}
	}
	return &out
}

// versionInstead says what to write in place of an unknown apiVersion.
func versionInstead(version string) string {
	if version == "v1" || strings.HasPrefix(version, "apps/") || strings.HasPrefix(version, "batch/") || strings.HasPrefix(version, "kubeflow.org/") {
		return "this is a manifest of Kubernetes: see docs/coming-from/kubernetes.md for the same in Escher, with apiVersion: " + APIVersion
	}
	return "write " + APIVersion
}

// target returns a new value for a document of the kind, nil if the kind is unknown.
func (d *Document) target() any {
	switch d.Kind {
	case KindTask:
		d.Task = &Task{}
		return d.Task
	case KindJob:
		d.Job = &Job{}
		return d.Job
	case KindResource:
		d.Resource = &Resource{}
		return d.Resource
	case KindReservation:
		d.Reservation = &Reservation{}
		return d.Reservation
	case KindPolicy:
		d.Policy = &SharedPolicy{}
		return d.Policy
	case KindNamespace:
		d.Namespace = &Namespace{}
		return d.Namespace
	case KindRight:
		d.Right = &Right{}
		return d.Right
	}
	return nil
}

// check checks the values of the fields. Each problem begins with the path of its field, which
// leads to its line.
func (d *decoder) check(doc *Document) {
	if doc.Job != nil {
		doc.Job.limit(d.known)
	}
	said := make(map[string]bool)
	for _, p := range d.problems {
		said[p.path] = true
	}
	before := len(d.problems)
	d.told(doc.root, doc.Validate(time.Unix(0, 0)), "")
	again := func(p problem) bool { return said[p.path] }
	d.problems = append(d.problems[:before], slices.DeleteFunc(d.problems[before:], again)...)
}

// Validate does every check that needs no cluster, and lists all problems, each with the path of
// its field.
func (d *Document) Validate(now time.Time) error {
	var errs []error
	switch d.Kind {
	case KindTask:
		errs = append(errs, d.Task.validate("", now))
	case KindJob:
		if d.Job.Name != "" {
			errs = append(errs, types.ValidateName("name", d.Job.Name))
		}
		errs = append(errs, d.Job.validate())
		if t := d.Job.Template; t != nil {
			errs = append(errs, t.validate("template.", now))
		}
		for i := range d.Job.Tasks {
			errs = append(errs, d.Job.Tasks[i].validate("tasks["+strconv.Itoa(i)+"].", now))
		}
	case KindResource:
		_, err := d.Resource.Resource()
		errs = append(errs, types.ValidateEphemeral("name", d.Resource.Name), err)
	case KindReservation:
		r := d.Reservation.Reservation()
		errs = append(errs, types.ValidateName("name", d.Reservation.Name), r.Validate())
	case KindPolicy:
		errs = append(errs, types.ValidateName("name", d.Policy.Name))
		if d.Policy.Session != "" {
			errs = append(errs, types.ValidateName("session", d.Policy.Session))
		}
	case KindNamespace:
		_, err := d.Namespace.Settings()
		errs = append(errs, types.ValidateName("name", d.Namespace.Name), err)
	case KindRight:
		errs = append(errs, d.Right.validate())
	}
	if err := errors.Join(errs...); err != nil {
		return types.Errorf(types.Invalid, "%w", err)
	}
	return nil
}

// validate checks a task; prefix is its path.
func (t *Task) validate(prefix string, now time.Time) error {
	s, err := t.Submission(now)
	if err == nil {
		err = s.Task.Validate()
	}
	sendable := t.Spec.Workdir.sendable(s.Spec)
	errs := []error{err, sendable, under("spec.", errors.Join(s.Spec.Validate(), s.Task.ValidateMemory(s.Spec), s.Task.ValidateInput(s.Spec)))}
	if t.ID != "" {
		errs = append(errs, types.ValidateName("id", t.ID))
	}
	return under(prefix, errors.Join(errs...))
}

// under puts a prefix before each line of an error.
func under(prefix string, err error) error {
	if err == nil || prefix == "" {
		return err
	}
	var errs []error
	for line := range strings.Lines(err.Error()) {
		errs = append(errs, fmt.Errorf("%s%s", prefix, strings.TrimSuffix(line, "\n")))
	}
	return errors.Join(errs...)
}
