// Package labels selects objects by their labels, in the syntax of kubectl.
package labels

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// MaxRequirements bounds the requirements of one selector, and the values of one of them.
const MaxRequirements = types.MaxLabels

// A Selector selects objects that meet all of its requirements. The empty one selects all objects.
type Selector struct{ all []requirement }

// operator is how a requirement compares.
type operator string

// The operators. isOneOf and isNone have values. The last two have none.
const (
	isOneOf operator = "in"
	isNone  operator = "notin"
	exists  operator = "exists"
	absent  operator = "absent"
)

// requirement is one requirement about the label with a key. An object without the label meets
// isNone.
type requirement struct {
	key    string
	op     operator
	values []string
}

// Syntax is an example of each form of a requirement.
const Syntax = `team=vision,stage!=dev,'env in (a,b)','env notin (a,b)',key,!key`

// Parse parses requirements with commas between them: key=value, key==value, key!=value,
// key in (a,b), key notin (a,b), key, and !key. field names the text in errors. Invalid: the text is
// empty or something else.
func Parse(field, text string) (Selector, error) {
	var s Selector
	if strings.TrimSpace(text) == "" {
		return s, types.Errorf(types.Invalid, "%s: is empty: write labels like team=vision, or leave it out", field)
	}
	for _, part := range split(text) {
		r, err := parse(field, strings.TrimSpace(part))
		if err != nil {
			return Selector{}, err
		}
		s.all = append(s.all, r)
	}
	if n := len(s.all); n > MaxRequirements {
		return Selector{}, types.Errorf(types.Invalid, "%s: has %d requirements: at most %d are allowed, drop some", field, n, MaxRequirements)
	}
	return s, nil
}

// split splits a text at the commas outside of parentheses.
func split(text string) []string {
	depth := 0
	var parts []string
	start := 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

// parse parses one requirement.
func parse(field, text string) (requirement, error) {
	r := requirement{op: exists}
	switch name, set, isSet := strings.Cut(text, "("); {
	case isSet:
		var ok bool
		if r, ok = parseSet(name, set); !ok {
			return r, wrong(field, text)
		}
	case strings.Contains(text, "!="):
		key, value, _ := strings.Cut(text, "!=")
		r = requirement{key, isNone, []string{value}}
	case strings.Contains(text, "="):
		key, value, _ := strings.Cut(text, "=")
		r = requirement{key, isOneOf, []string{strings.TrimPrefix(value, "=")}}
	case strings.HasPrefix(text, "!"):
		r = requirement{key: text[1:], op: absent}
	default:
		r.key = text
	}
	r.key = strings.TrimSpace(r.key)
	if r.key == "" || len(strings.Fields(r.key)) > 1 || strings.Contains(r.key, ")") {
		return r, wrong(field, text)
	}
	if err := types.ValidateLabelKey(field, r.key); err != nil {
		return r, err
	}
	if n := len(r.values); n > MaxRequirements {
		return r, types.Errorf(types.Invalid, "%s.%s: has %d values: at most %d are allowed, drop some", field, r.key, n, MaxRequirements)
	}
	for i, value := range r.values {
		r.values[i] = strings.TrimSpace(value)
		if err := types.ValidateLabelValue(field+"."+r.key, r.values[i]); err != nil {
			return r, err
		}
	}
	return r, nil
}

// parseSet parses "key in" and "a,b)".
func parseSet(name, set string) (requirement, bool) {
	words := strings.Fields(name)
	set, closed := strings.CutSuffix(set, ")")
	if len(words) != 2 || !closed || strings.TrimSpace(set) == "" {
		return requirement{}, false
	}
	r := requirement{words[0], operator(words[1]), strings.Split(set, ",")}
	return r, r.op == isOneOf || r.op == isNone
}

func wrong(field, text string) error {
	return types.Errorf(types.Invalid, "%s: %q is not a requirement: write %s", field, types.Cut(text, types.MaxText), Syntax)
}

// Matches reports whether labels meet all requirements.
func (s Selector) Matches(labels []types.Label) bool {
	for i := range s.all {
		if !s.all[i].met(labels) {
			return false
		}
	}
	return true
}

// met reports whether labels meet the requirement.
func (r *requirement) met(labels []types.Label) bool {
	i := slices.IndexFunc(labels, func(l types.Label) bool { return l.Name == r.key })
	switch r.op {
	case isOneOf:
		return i >= 0 && slices.Contains(r.values, labels[i].Value)
	case isNone:
		return i < 0 || !slices.Contains(r.values, labels[i].Value)
	case absent:
		return i < 0
	}
	return i >= 0
}

// IsZero reports whether the selector is empty.
func (s Selector) IsZero() bool { return len(s.all) == 0 }

// String returns the form that Parse parses.
func (s Selector) String() string {
	texts := make([]string, len(s.all))
	for i, r := range s.all {
		switch {
		case r.op == exists:
			texts[i] = r.key
		case r.op == absent:
			texts[i] = "!" + r.key
		case len(r.values) > 1:
			texts[i] = r.key + " " + string(r.op) + " (" + strings.Join(r.values, ",") + ")"
		case r.op == isOneOf:
			texts[i] = r.key + "=" + r.values[0]
		default:
			texts[i] = r.key + "!=" + r.values[0]
		}
	}
	return strings.Join(texts, ",")
}

// Exactly returns the labels of a selector that only has requirements like key=value. ok is false
// for any other.
func (s Selector) Exactly() (labels []types.Label, ok bool) {
	for _, r := range s.all {
		if r.op != isOneOf || len(r.values) != 1 || r.values[0] == "" {
			return nil, false
		}
		labels = append(labels, types.Label{Name: r.key, Value: r.values[0]})
	}
	return labels, true
}
