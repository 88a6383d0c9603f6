package cmdutil

import (
	"strings"
	"time"

	"github.com/escher-sched/escher/types"
)

// ParseRequests reads a vector of name=amount, separated by commas within each text. flag names it
// in errors.
func ParseRequests(flag string, texts []string) (types.Requests, error) {
	amounts := make(map[string]string)
	for _, text := range texts {
		for part := range strings.SplitSeq(text, ",") {
			name, amount, ok := strings.Cut(part, "=")
			if !ok || name == "" {
				return nil, types.Errorf(types.Invalid, "%s: %q is no request: write name=amount, such as cpu=500m", flag, part)
			}
			if _, twice := amounts[name]; twice {
				return nil, types.Errorf(types.Invalid, "%s: %s is given twice: add the amounts up", flag, name)
			}
			amounts[name] = amount
		}
	}
	requests, err := types.MakeRequests(amounts)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "%s: %w", flag, err)
	}
	return requests, nil
}

// ParseAlternative reads name=amount,…[,after=3s].
func ParseAlternative(text string) (types.Alternative, error) {
	var a types.Alternative
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		after, ok := strings.CutPrefix(part, "after=")
		if !ok {
			parts = append(parts, part)
			continue
		}
		d, err := time.ParseDuration(after)
		if err != nil {
			return a, types.Errorf(types.Invalid, "alternative: after: %q is no duration: write it like 3s or 1m", after)
		}
		a.After = d
	}
	requests, err := ParseRequests("alternative", parts)
	a.Requests = requests
	return a, err
}

// ParseProvide reads name=amount@when.
func ParseProvide(text string) (types.Provide, error) {
	given, when, ok := strings.Cut(text, "@")
	if !ok {
		when = string(types.WhenRunning)
	}
	name, amount, ok := strings.Cut(given, "=")
	if !ok {
		return types.Provide{}, types.Errorf(types.Invalid, "provide: %q is not name=amount@when: write it like x=1@running", text)
	}
	q, err := types.ParseQuantity(name, amount)
	if err != nil {
		return types.Provide{}, types.Errorf(types.Invalid, "provide: %w", err)
	}
	return types.Provide{Name: name, Amount: q, When: types.When(when)}, nil
}

// ParseBundle reads name=amount,…[@node].
func ParseBundle(text string) (types.Bundle, error) {
	vector, node, _ := strings.Cut(text, "@")
	requests, err := ParseRequests("bundle", []string{vector})
	return types.Bundle{Requests: requests, Node: node}, err
}

// ParseMoment reads a time: in RFC 3339, or as people write it, without a zone, which is the time of this
// machine. ok is false if it is none.
func ParseMoment(text string) (at time.Time, ok bool) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, true
	}
	for _, form := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return at, true
		}
	}
	return at, false
}

// ParseBytes reads a number of bytes such as 8Gi; empty means 0.
func ParseBytes(field, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	q, err := types.ParseQuantity(string(types.Memory), text)
	if err != nil || q <= 0 || q == types.Inf {
		return 0, types.Errorf(types.Invalid, "%s: %q is not a size: write it like 8Gi", field, text)
	}
	return int64(q), nil
}
