package why

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/types"
)

// said is the format of a summary with its arguments, for Merge.
type said struct {
	format string
	args   []any
}

// Say returns a reason with a formatted summary. Merge makes one sentence of several that differ in
// numbers only: integers, quantities and durations.
func Say(cause Cause, format string, args ...any) Reason {
	return Reason{Cause: cause, Summary: fmt.Sprintf(format, args...), said: said{format, args}}
}

// And returns the reason with formatted text added to its summary.
func (r Reason) And(format string, args ...any) Reason {
	r.Summary += fmt.Sprintf(format, args...)
	r.said = said{r.said.format + format, slices.Concat(r.said.args, args)}
	return r
}

// IsZero reports whether there is no reason.
func (r Reason) IsZero() bool { return r.Summary == "" }

// Merged is one sentence of several reasons.
type Merged struct {
	// Count is the number of reasons.
	Count int
	// Summary has a range, such as 3 to 14, for each number that differs.
	Summary string
}

// Merge groups reasons with the same summary but for numbers, the most frequent first.
func Merge(reasons []Reason) []Merged {
	type group struct {
		count       int
		least, most said
	}
	var groups []*group
	for _, r := range reasons {
		if r.said.format == "" {
			r.said = said{"%s", []any{r.Summary}}
		}
		at := slices.IndexFunc(groups, func(g *group) bool { return g.least.like(r.said) })
		if at < 0 {
			groups = append(groups, &group{1, said{r.said.format, slices.Clone(r.said.args)}, said{r.said.format, slices.Clone(r.said.args)}})
			continue
		}
		g := groups[at]
		g.count++
		g.least, g.most = g.least.bounds(g.most, r.said)
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(b.count, a.count) })
	out := make([]Merged, len(groups))
	for i, g := range groups {
		out[i] = Merged{g.count, g.least.to(g.most)}
	}
	return out
}

// number returns a number that an argument stands for.
func number(arg any) (int64, bool) {
	switch n := arg.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case types.Quantity:
		return int64(n), true
	case time.Duration:
		return int64(n), true
	}
	return 0, false
}

// like reports whether two have the same format, and the same arguments but for numbers.
func (s said) like(o said) bool {
	if s.format != o.format || len(s.args) != len(o.args) {
		return false
	}
	for i, arg := range s.args {
		_, is := number(arg)
		_, too := number(o.args[i])
		if is != too || !is && fmt.Sprint(arg) != fmt.Sprint(o.args[i]) {
			return false
		}
	}
	return true
}

// bounds extends the range from s to most by the numbers of another one.
func (s said) bounds(most, o said) (least, largest said) {
	for i, arg := range o.args {
		n, is := number(arg)
		if low, _ := number(s.args[i]); is && n < low {
			s.args[i] = arg
		}
		if high, _ := number(most.args[i]); is && n > high {
			most.args[i] = arg
		}
	}
	return s, most
}

// to returns the sentence with ranges of numbers.
func (s said) to(most said) string {
	args := make([]any, len(s.args))
	for i, arg := range s.args {
		args[i] = arg
		if low, is := number(arg); is {
			if high, _ := number(most.args[i]); high > low {
				args[i] = span{arg, most.args[i]}
			}
		}
	}
	return fmt.Sprintf(s.format, args...)
}

// span is a range of numbers.
type span struct{ least, most any }

// Format formats both ends by the verb.
func (s span) Format(f fmt.State, verb rune) {
	format := fmt.FormatString(f, verb)
	_, _ = fmt.Fprintf(f, format+" to "+format, s.least, s.most)
}

// Summaries returns the summaries of reasons.
func Summaries(reasons []Reason) []string {
	out := make([]string, len(reasons))
	for i, r := range reasons {
		out[i] = r.Summary
	}
	return out
}
