package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// RequestDigest returns a digest of tasks and policies as the user requested them. It ignores the
// order of tasks, the order of the fields of policies, labels, and deadlines, which count from the
// submission. It identifies a job whose tasks policies have changed since. It is "" without policies: the tasks
// are then as requested.
func RequestDigest(tasks []controlplane.Submission, policies []types.Policy) string {
	return digestOf(tasks, esl.Canonical(policies), content)
}

// digestOf is RequestDigest of policies as they are written, and of tasks by their content.
func digestOf(tasks []controlplane.Submission, policies []types.Policy, content func(types.Task, string) string) string {
	if len(policies) == 0 {
		return ""
	}
	all := make([]string, len(tasks), len(tasks)+1)
	digests := make(map[*types.Spec]string)
	for i := range tasks {
		t := &tasks[i]
		spec := t.Task.Spec
		if t.Spec != nil {
			if digests[t.Spec] == "" {
				digests[t.Spec] = controlplane.SpecDigest(t.Spec)
			}
			spec = digests[t.Spec]
		}
		all[i] = content(t.Task, spec)
	}
	slices.Sort(all)
	if len(tasks) > 0 && tasks[0].Task.Count > 0 { // an array
		all = append(all, string(indicesOf(tasks)))
	}
	for _, p := range policies {
		all = append(all, p.Kind, sortedFields(p.With))
	}
	sum := sha256.New()
	for i, one := range all {
		if i > 0 && one == all[i-1] {
			one = "" // equal to the one before; there may be thousands
		}
		sum.Write([]byte{byte(len(one) >> 16), byte(len(one) >> 8), byte(len(one))})
		sum.Write([]byte(one))
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// sortedFields returns JSON with its fields sorted; other text is unchanged.
func sortedFields(text string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // all digits
	if d.Decode(&v) != nil {
		return text
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return string(sorted)
}

// content returns what distinguishes a task from another, as text, except its deadline and its labels.
// spec is the digest of its spec.
func content(t types.Task, spec string) string {
	t.Labels = nil
	return labeledContent(t, spec)
}

// labeledContent is content with the labels. Digests of former versions have them.
func labeledContent(t types.Task, spec string) string {
	t.Extra, t.Job, t.Submitted, t.Stop, t.Evict, t.EvictGrace, t.Later, t.Deadline, t.Spec, t.User = types.Extra{}, "", 0, nil, 0, 0, nil, 0, spec, ""
	t.Index, t.Count = 0, 0
	return string(types.Encode(0, &t))
}

// indicesOf returns the indices that tasks will have in their job.
func indicesOf(tasks []controlplane.Submission) manifest.Indices {
	indices := make([]int, len(tasks))
	for i := range tasks {
		if indices[i] = i; tasks[i].Task.Count > 0 {
			indices[i] = tasks[i].Task.Index
		}
	}
	return manifest.IndicesOf(indices)
}

// sameIndices reports whether existing tasks of a job have the indices of the wanted ones. Some may
// be deleted. Tasks of an older version have none.
func sameIndices(tasks []*cluster.Task, wanted []controlplane.Submission) bool {
	left := make(map[int]bool, len(wanted))
	for i := range wanted {
		if w := &wanted[i].Task; w.Count > 0 {
			i = w.Index
		}
		left[i] = true
	}
	return !slices.ContainsFunc(tasks, func(t *cluster.Task) bool { return t.Info.V.Count > 0 && !left[t.Info.V.Index] })
}
