package controlplane

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/types"
)

// A Submission is a task to launch.
type Submission struct {
	// ID is unique in its namespace, forever. Empty means an id made of Task.Name, with a number if
	// the launch has several tasks of that name.
	ID string
	// Task holds the intent. Launch sets Job and Submitted; of a job also Index and Count, unless
	// Count is given; and Task.Spec if Spec below is given.
	Task types.Task
	// Spec is the program to run; tasks may share it. nil means the stored spec that Task.Spec
	// names.
	Spec *types.Spec
}

// SpecDigest returns the id of a spec in the store: the SHA-256 of its encoding, in hexadecimal.
func SpecDigest(s *types.Spec) string {
	sum := sha256.Sum256(types.Encode(0, s))
	return hex.EncodeToString(sum[:])
}

// submission is a checked task, ready to be written.
type submission struct {
	id string
	// siblings is the prefix of the ids of its siblings in this launch, and of no other ids; empty
	// if the task has no siblings.
	siblings string
	task     *types.Task
}

// specs are the distinct specs of a launch, by digest.
type specs struct {
	byDigest map[string]*types.Spec
	digests  map[*types.Spec]string
	// bytes holds their sizes, by digest.
	bytes map[string]int
}

// add checks a spec and returns its digest.
func (s *specs) add(spec *types.Spec) (string, error) {
	if digest, ok := s.digests[spec]; ok {
		return digest, nil
	}
	if err := spec.Validate(); err != nil {
		return "", err
	}
	digest := SpecDigest(spec)
	s.digests[spec] = digest
	s.byDigest[digest] = spec
	s.bytes[digest] = len(types.Encode(0, spec))
	return digest, nil
}

// prepare checks submissions, adds labels, and makes the missing ids. Tasks of one name share the
// tag. The error names all problems.
func prepare(tasks []Submission, tag string, labels []types.Label, limits Limits, stamp int64) ([]submission, *specs, error) {
	if len(tasks) == 0 {
		return nil, nil, types.Errorf(types.Invalid, "tasks: is empty: give at least one")
	}
	all := &specs{byDigest: make(map[string]*types.Spec), digests: make(map[*types.Spec]string), bytes: make(map[string]int)}
	out := make([]submission, 0, len(tasks))
	seen := make(map[string]bool, len(tasks))
	siblings := ids.NewSiblings(len(tasks), func(i int) (*types.Task, bool) { return &tasks[i].Task, tasks[i].ID != "" }, tag)
	var errs []error
	for i := range tasks {
		s, err := tasks[i].prepare(all, siblings, labels, limits, stamp)
		if seen[s.id] {
			err = types.Errorf(types.Invalid, "id: %q is given twice: ids are unique", s.id)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tasks[%d]: %w", i, err))
			continue
		}
		seen[s.id] = true
		out = append(out, s)
	}
	return out, all, invalid(errs)
}

// prepare checks one submission.
func (s *Submission) prepare(all *specs, next *ids.Siblings, labels []types.Label, limits Limits, stamp int64) (submission, error) {
	task := s.Task
	task.Submitted, task.Labels = stamp, types.MergeLabels(labels, task.Labels)
	errs := []error{task.Validate()}
	switch {
	case s.Spec != nil:
		digest, err := all.add(s.Spec)
		task.Spec = digest
		errs = append(errs, err, task.ValidateImplied(s.Spec), task.ValidateMemory(s.Spec), task.ValidateWarning(s.Spec), task.ValidateInput(s.Spec))
	case len(task.Spec) != hex.EncodedLen(sha256.Size) || strings.Trim(task.Spec, "0123456789abcdef") != "":
		errs = append(errs, types.Errorf(types.Invalid, "spec: %q is not a digest: give the spec to run", task.Spec))
	}
	if task.Deadline != 0 && task.Deadline <= stamp {
		errs = append(errs, types.Errorf(types.Invalid, "deadline: %s has passed: give a later time", time.Unix(0, task.Deadline).UTC().Format(time.RFC3339)))
	}
	if task.Stop != nil || task.Evict != 0 || task.EvictGrace != 0 || task.Later != nil {
		errs = append(errs, types.Errorf(types.Invalid, "stop: is set before the launch: launch the task first"))
	}
	id, siblings := s.ID, ""
	if id == "" {
		id, siblings = next.ID(&task)
	} else {
		errs = append(errs, types.ValidateName("id", id))
	}
	if n := bindCompares(&task); n > limits.Ops {
		errs = append(errs, types.Errorf(types.Invalid, "requests: binding it may take %d compares, and the store takes %d at once: "+
			"request fewer ephemeral resources, or run etcd with a larger --max-txn-ops", n, limits.Ops))
	}
	return submission{id, siblings, &task}, invalid(errs)
}
