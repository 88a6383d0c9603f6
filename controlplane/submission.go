package controlplane

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/types"
)

// Submission is a task to be launched.
type Submission struct {
	// ID is unique in its namespace, for ever; empty: made from Task.Name, and numbered
	// among those of that name which are launched with it.
	ID string
	// Task is what it needs. Job and Submitted are set by Launch, and Spec too
	// if that below is given.
	Task types.Task
	// Spec is what to run; tasks may share it. Nil: the stored one that
	// Task.Spec names.
	Spec *types.Spec
}

// SpecDigest returns what a spec is stored as: the SHA-256 of its encoding, in
// hexadecimal.
func SpecDigest(s *types.Spec) string {
	sum := sha256.Sum256(types.Encode(0, s))
	return hex.EncodeToString(sum[:])
}

// submission is a task checked and ready to be written.
type submission struct {
	id string
	// kin is what its id and those of others of this launch begin with, and nobody
	// else's; empty if it has an id by itself.
	kin  string
	task *types.Task
}

// specs are the distinct specs of a launch, by digest.
type specs struct {
	byDigest map[string]*types.Spec
	digests  map[*types.Spec]string
	// bytes are how large they are, by digest.
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

// prepare checks submissions and gives ids to those that have none, made of a tag where
// there are several of a name: all problems at once.
func prepare(tasks []Submission, tag string, limits Limits, stamp int64) ([]submission, *specs, error) {
	if len(tasks) == 0 {
		return nil, nil, types.Errorf(types.Invalid, "tasks: there is none: give at least one")
	}
	all := &specs{byDigest: make(map[string]*types.Spec), digests: make(map[*types.Spec]string), bytes: make(map[string]int)}
	out := make([]submission, 0, len(tasks))
	ids := make(map[string]bool, len(tasks))
	kin := newKinIDs(tasks, tag)
	var errs []error
	for i := range tasks {
		s, err := tasks[i].prepare(all, kin, limits, stamp)
		if ids[s.id] {
			err = types.Errorf(types.Invalid, "id: %q is given twice: ids are unique", s.id)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tasks[%d]: %w", i, err))
			continue
		}
		ids[s.id] = true
		out = append(out, s)
	}
	return out, all, invalid(errs)
}

// prepare checks one submission.
func (s *Submission) prepare(all *specs, ids *kinIDs, limits Limits, stamp int64) (submission, error) {
	task := s.Task
	task.Submitted = stamp
	errs := []error{task.Validate()}
	switch {
	case s.Spec != nil:
		digest, err := all.add(s.Spec)
		task.Spec = digest
		errs = append(errs, err, task.ValidateImplied(s.Spec), task.ValidateWarning(s.Spec))
	case len(task.Spec) != hex.EncodedLen(sha256.Size) || strings.Trim(task.Spec, "0123456789abcdef") != "":
		errs = append(errs, types.Errorf(types.Invalid, "spec: %q is no digest: give the spec to run", task.Spec))
	}
	if task.Deadline != 0 && task.Deadline <= stamp {
		errs = append(errs, types.Errorf(types.Invalid, "deadline: %s has passed: give a later time", time.Unix(0, task.Deadline).UTC().Format(time.RFC3339)))
	}
	if task.Stop != nil || task.Evict != 0 || task.EvictGrace != 0 || task.Later != nil {
		errs = append(errs, types.Errorf(types.Invalid, "stop: is set: launch the task first"))
	}
	id, kin := s.ID, ""
	if id == "" {
		id, kin = ids.id(task.Name)
	} else {
		errs = append(errs, types.ValidateName("id", id))
	}
	if n := bindCompares(&task); n > limits.Ops {
		errs = append(errs, types.Errorf(types.Invalid, "requests: binding it may take %d compares, and the store takes %d at once: "+
			"request fewer ephemeral resources, or run etcd with a larger --max-txn-ops", n, limits.Ops))
	}
	return submission{id, kin, &task}, invalid(errs)
}

// What binding a task may have to compare.
const (
	// fixedCompares are the task, its status, its namespace; and of the node:
	// itself, what is allocated there, its session, its cordon, its devices.
	fixedCompares = 8
	// ephemeralCompares are the node's own key of a resource; that of every node, or
	// that of the cluster; what was left behind; a provider and its report.
	ephemeralCompares = 5
)

// bindCompares returns how many compares binding the task may take: the most of
// any of its alternatives.
func bindCompares(t *types.Task) int {
	most := requestCompares(t.Requests)
	for _, a := range t.Alternatives {
		most = max(most, requestCompares(t.Requests.Plus(a.Requests)))
	}
	return fixedCompares + most
}

// requestCompares is the part of the requests.
func requestCompares(r types.Requests) int {
	n := 0
	for _, x := range r {
		switch {
		case strings.Contains(x.Name, "@"):
			n++ // the grant
		case !types.IsPhysical(x.Name):
			n += ephemeralCompares
		}
	}
	return n
}
