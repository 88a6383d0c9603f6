package manifest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Array makes a task of the template for each index.
type Array struct {
	Indices Indices `json:"indices" desc:"the index of each task: 0-99, 1,3,5-7, or 0-90:10 for every tenth"`
	AtOnce  int     `json:"atOnce,omitempty" desc:"how many of them run at once; any number if it is left out" zero:"would let none run: give 1 or more, or leave it out for any number" min:"0" max:"100000"`
}

// Indices are the indices of an array as text: numbers and ranges with commas between them, a range
// with a step after a colon. It also accepts a single number.
type Indices string

// maxIndex is the largest index.
const maxIndex = types.MaxCount

// maxIndices bounds the text in bytes: that many indices are still readable.
const maxIndices = 1 << 16

// UnmarshalJSON decodes a text or a number.
func (x *Indices) UnmarshalJSON(text []byte) error {
	var a types.Amount
	if err := a.UnmarshalJSON(text); err != nil {
		return types.Errorf(types.Invalid, "%s are no indices: write them such as \"0-99\"", text)
	}
	*x = Indices(a)
	_, err := x.List()
	return err
}

// List returns the indices in the order of the text, at most MaxTasks. Invalid: the text is wrong,
// an index is there twice, or there are too many.
func (x Indices) List() ([]int, error) {
	if len(x) > maxIndices {
		return nil, types.Errorf(types.Invalid, "has %d bytes: at most %d are allowed, write ranges such as 0-99", len(x), maxIndices)
	}
	var out []int
	seen := make(map[int]bool)
	for part := range strings.SplitSeq(string(x), ",") {
		first, last, step, err := indexRange(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if n := (last-first)/step + 1; len(out)+n > MaxTasks {
			return nil, types.Errorf(types.Invalid, "%s makes more than %d tasks: submit them in several jobs", part, MaxTasks)
		}
		for i := first; i <= last; i += step {
			if seen[i] {
				return nil, types.Errorf(types.Invalid, "%d is there twice: name each index once", i)
			}
			seen[i] = true
			out = append(out, i)
		}
	}
	return out, nil
}

// IndicesOf writes indices, sorted, as ranges.
func IndicesOf(indices []int) Indices {
	sorted := slices.Sorted(slices.Values(indices))
	var parts []string
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n] == sorted[0]+n {
			n++
		}
		part := strconv.Itoa(sorted[0])
		if n > 1 {
			part += "-" + strconv.Itoa(sorted[n-1])
		}
		parts, sorted = append(parts, part), sorted[n:]
	}
	return Indices(strings.Join(parts, ","))
}

// indexRange reads N, N-M or N-M:STEP.
func indexRange(part string) (first, last, step int, err error) {
	from, by, stepped := strings.Cut(part, ":")
	low, high, ranged := strings.Cut(from, "-")
	if !ranged {
		high = low
	}
	if !stepped {
		by = "1"
	}
	var errs [3]error
	first, errs[0] = strconv.Atoi(low)
	last, errs[1] = strconv.Atoi(high)
	step, errs[2] = strconv.Atoi(by)
	switch {
	case errs != [3]error{} || stepped && !ranged || strings.ContainsAny(part, "+"):
		return 0, 0, 0, types.Errorf(types.Invalid, "%q is neither a number nor a range: write such as 7, 0-99 or 0-90:10", part)
	case last > maxIndex:
		return 0, 0, 0, types.Errorf(types.Invalid, "%d is too large: give at most %d", last, maxIndex)
	case last < first:
		return 0, 0, 0, types.Errorf(types.Invalid, "%s runs backwards: write %d-%d", part, last, first)
	case step < 1:
		return 0, 0, 0, types.Errorf(types.Invalid, "%s has a step of %d: give 1 or more", part, step)
	}
	return first, last, step, nil
}

// ParseArray parses the short form of an array: INDICES or INDICES%ATONCE.
func ParseArray(text string) (*Array, error) {
	indices, most, limited := strings.Cut(text, "%")
	a := &Array{Indices: Indices(indices)}
	if limited {
		n, err := strconv.Atoi(most)
		if err != nil {
			return nil, types.Errorf(types.Invalid, "array: %q is no number of tasks at once: write such as 0-99%%8", most)
		}
		if a.AtOnce = n; n == 0 {
			return nil, types.Errorf(types.Invalid, "array: %%0 would let none run: give 1 or more, or leave it out for any number")
		}
	}
	return a, a.validate()
}

// validate checks an array; nil is valid.
func (a *Array) validate() error {
	if a == nil {
		return nil
	}
	if a.AtOnce < 0 || a.AtOnce > MaxTasks {
		return types.Errorf(types.Invalid, "array.atOnce: %d is out of range: give 1 to %d, or leave it out for any number", a.AtOnce, MaxTasks)
	}
	if _, err := a.Indices.List(); err != nil {
		return types.Errorf(types.Invalid, "array.indices: %w", err)
	}
	return nil
}

// Submissions returns a copy of a task for each index. Invalid: see Indices.List.
func (a *Array) Submissions(s controlplane.Submission) ([]controlplane.Submission, error) {
	indices, err := a.Indices.List()
	if err != nil {
		return nil, types.Errorf(types.Invalid, "array.indices: %w", err)
	}
	out := make([]controlplane.Submission, len(indices))
	for i, index := range indices {
		out[i] = s
		out[i].Task.Index, out[i].Task.Count = index, len(indices)
	}
	return out, nil
}

// limitPolicy is the policy that AtOnce stands for, and its parameter.
const limitPolicy, limitParameter = "limit", "atOnce"

// limit adds the policy that AtOnce stands for, unless it is out of range, which Validate reports.
func (j *Job) limit(known Policies) {
	if j.Array == nil || j.Array.validate() != nil || j.Array.AtOnce == 0 {
		return
	}
	if p, _, err := MakePolicy(limitPolicy, map[string]any{limitParameter: j.Array.AtOnce}, known); err == nil {
		j.Policies = append(j.Policies, p)
	}
}
