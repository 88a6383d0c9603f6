package types

import (
	"cmp"
	"slices"
	"strings"
)

// ParseLabel parses key=value; field names it in errors. Invalid: the text is something else.
func ParseLabel(field, text string) (Label, error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return Label{}, Errorf(Invalid, "%s: %q is not key=value: write it like team=vision", field, shorten(text))
	}
	l := Label{Name: key, Value: value}
	return l, l.validate(field)
}

// LabelsOf returns the labels of a map, sorted by key; nil if there are none.
func LabelsOf(m map[string]string) []Label {
	var out []Label
	for name, value := range m {
		out = append(out, Label{Name: name, Value: value})
	}
	return sortedByKey(out)
}

// LabelMap is the inverse of LabelsOf.
func LabelMap(labels []Label) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	m := make(map[string]string, len(labels))
	for _, l := range labels {
		m[l.Name] = l.Value
	}
	return m
}

// LabelsText returns labels as key=value, with commas between them.
func LabelsText(labels []Label) string {
	texts := make([]string, len(labels))
	for i, l := range labels {
		texts[i] = l.Name + "=" + l.Value
	}
	return strings.Join(texts, ",")
}

// MergeLabels returns both lists as one, sorted by key. The value in own counts for a key in both.
// It returns nil if both are empty.
func MergeLabels(base, own []Label) []Label {
	if len(base)+len(own) == 0 {
		return nil
	}
	return sortedByKey(append(slices.Clone(own), without(base, own)...))
}

// without returns the labels whose keys are not among those of others.
func without(labels, others []Label) []Label {
	return slices.DeleteFunc(slices.Clone(labels), func(l Label) bool {
		return slices.ContainsFunc(others, func(o Label) bool { return o.Name == l.Name })
	})
}

func sortedByKey(labels []Label) []Label {
	slices.SortFunc(labels, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
	return labels
}
