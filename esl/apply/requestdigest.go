package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// RequestDigest returns a digest of tasks and policies as the user requested them. It ignores the
// order of tasks, the order of the fields of policies, and deadlines, which count from the submission.
// It identifies a job whose tasks policies have changed since. It is "" without policies: the tasks
// are then as requested.
func RequestDigest(tasks []controlplane.Submission, policies []types.Policy) string {
	return digestOf(tasks, esl.Canonical(policies))
}

// digestOf is RequestDigest of policies as they are written.
func digestOf(tasks []controlplane.Submission, policies []types.Policy) string {
	if len(policies) == 0 {
		return ""
	}
	all := make([]string, len(tasks))
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

// content returns what distinguishes a task from another, as text, except its deadline. spec is the
// digest of its spec.
func content(t types.Task, spec string) string {
	t.Extra, t.Job, t.Submitted, t.Stop, t.Evict, t.EvictGrace, t.Later, t.Deadline, t.Spec = types.Extra{}, "", 0, nil, 0, 0, nil, 0, spec
	return string(types.Encode(0, &t))
}
