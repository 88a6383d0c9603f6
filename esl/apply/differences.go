package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// differences lists the fields in which an existing object differs from the wanted one. It compares
// the first tasks of a job.
func (d *decider) differences(t there, wanted []controlplane.Submission, policies []types.Policy) ([]string, error) {
	out := d.otherPolicies(t, policies)
	if j := len(t.tasks); t.tasks[0].Info.V.Job != "" && j != len(wanted) {
		out = append(out, fmt.Sprintf("tasks: %d → %d", j, len(wanted)))
	}
	if t.tasks[0].Info.V.Job != "" && !sameIndices(t.tasks, wanted) {
		indices := make([]int, len(t.tasks))
		for i, one := range t.tasks {
			indices[i] = one.Info.V.Index
		}
		out = append(out, fmt.Sprintf("indices: %s → %s", manifest.IndicesOf(indices), indicesOf(wanted)))
	}
	is := t.tasks[0]
	fields, err := d.fields(t, is, closest(*is.Info.V.Full(), wanted))
	if err != nil {
		return nil, err
	}
	if out = append(out, fields...); len(out) == 0 {
		out = append(out, "its tasks")
	}
	return out, nil
}

// fields lists the fields in which an existing task differs from the wanted one.
func (d *decider) fields(t there, task *cluster.Task, want controlplane.Submission) ([]string, error) {
	is := *task.Info.V.Full()
	requested := d.requestDigest(t.id) != ""
	if requested {
		makers := d.makers(t.id)
		is, want.Task = requestedTask(is, want.Task, makers), requestedTask(want.Task, want.Task, makers)
	}
	spec, err := d.specs(is.Spec)
	if err != nil {
		return nil, err
	}
	if requested {
		is, spec = esl.WithoutPeers(is, spec, want.Spec)
	}
	before, err := flat(manifest.FromSubmission(controlplane.Submission{Task: is, Spec: spec}))
	if err != nil {
		return nil, err
	}
	if sameDeadline(want.Task.Deadline-d.now.UnixNano(), is.Deadline-is.Submitted) {
		want.Task.Deadline = is.Deadline // the same time after the submission
	}
	after, err := flat(manifest.FromSubmission(want))
	if err != nil {
		return nil, err
	}
	return different(before, after), nil
}

// different lists the differing fields.
func different(before, after map[string]string) []string {
	var out []string
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if was, is := before[key], after[key]; was != is {
			out = append(out, fmt.Sprintf("%s: %s → %s", key, orNone(was), orNone(is)))
		}
	}
	return out
}

// closest returns the wanted task of the same name, or the first one.
func closest(is types.Task, wanted []controlplane.Submission) controlplane.Submission {
	for _, w := range wanted {
		if w.Task.Name == is.Name {
			return w
		}
	}
	return wanted[0]
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// flat returns the fields of a document by path.
func flat(t any) (map[string]string, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	out := make(map[string]string)
	flatten(out, "", v)
	return out, nil
}

func flatten(out map[string]string, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			at := name
			if path != "" {
				at = path + "." + name
			}
			flatten(out, at, x)
		}
	case []any:
		for i, x := range v {
			flatten(out, path+"["+strconv.Itoa(i)+"]", x)
		}
	default:
		out[path] = fmt.Sprint(v)
	}
}

// Submit returns the decision to launch the documents, whatever exists. Invalid: one of them cannot
// be launched.
func Submit(docs []manifest.Document, now time.Time) (*Decision, error) {
	out := &Decision{reads: make(controlplane.ReadSet)}
	for i := range docs {
		doc := &docs[i]
		c, err := newChange(doc)
		if err != nil {
			return nil, err
		}
		c.Action = Launch
		switch doc.Kind {
		case manifest.KindTask:
			var s controlplane.Submission
			s, err = doc.Task.Submission(now)
			c.Submissions = []controlplane.Submission{s}
		case manifest.KindJob:
			c.Submissions, err = doc.Job.Submissions(now)
		default:
			err = types.Errorf(types.Invalid, "line %d: %s cannot run: %s, or leave it out", doc.Line, doc, action.ApplyFile.Of())
		}
		if err != nil {
			return nil, err
		}
		c.Tasks = len(c.Submissions)
		out.Changes = append(out.Changes, c)
	}
	return out, nil
}
