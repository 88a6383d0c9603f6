package rest

import (
	"cmp"
	"slices"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/labels"
)

// Part is an input that asks for a part of a list.
type Part struct {
	Limit int    `query:"limit" minimum:"1" maximum:"10000" default:"500" doc:"how many objects to list at most"`
	After string `query:"after" maxLength:"512" doc:"lists the objects after this one: the next of the page before"`
}

// Listing is Part with a selector, for objects with labels.
type Listing struct {
	Part
	Selector string `query:"selector" maxLength:"4096" doc:"labels that the objects have, such as team=vision,stage!=dev"`
}

// InPart is Part for objects of a namespace.
type InPart struct {
	InNamespace
	Part
}

// page is a part of a list, sorted by id.
type page[T any] struct {
	Revision int64  `json:"revision" doc:"the revision of the cluster that the list is of"`
	Items    []T    `json:"items" nullable:"false"`
	Next     string `json:"next,omitempty" doc:"if there are more objects: the value of after for the next page"`
}

// selects returns what tells whether a map of labels is selected.
func (l *Listing) selects() (func(map[string]string) bool, error) {
	if l.Selector == "" {
		return func(map[string]string) bool { return true }, nil
	}
	sel, err := labels.Parse("selector", l.Selector)
	return func(m map[string]string) bool { return sel.Matches(types.LabelsOf(m)) }, err
}

// paged returns the page that is asked for, of all objects.
func paged[T any](l *Part, revision int64, all []T, id func(T) string) page[T] {
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(id(a), id(b)) })
	from := 0
	if l.After != "" {
		at, found := slices.BinarySearchFunc(all, l.After, func(x T, after string) int { return cmp.Compare(id(x), after) })
		if from = at; found {
			from++
		}
	}
	out := page[T]{Revision: revision, Items: append([]T{}, all[from:min(len(all), from+l.Limit)]...)}
	if from+l.Limit < len(all) {
		out.Next = id(out.Items[len(out.Items)-1])
	}
	return out
}
