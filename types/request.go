package types

import (
	"encoding/json"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/escher-sched/escher/types/wire"
)

// A Request asks for an amount of a resource, by its name in the task's namespace.
type Request struct {
	Name   string
	Amount Quantity
}

func (r *Request) fields(w *wire.Pass) {
	wire.Text(w, 2, &r.Name)
	wire.Integer(w, 3, &r.Amount)
}

// Requests is a request vector, for one node. It is sorted by name and names each resource once;
// build it with NewRequests or MakeRequests.
type Requests []Request

// MakeRequests parses a vector of texts, {"cpu": "500m", "gpu@train": "1"}. Invalid: the error
// names every wrong amount.
func MakeRequests(texts map[string]string) (Requests, error) {
	var errs []error
	var out Requests
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		q, err := ParseQuantity(name, texts[name])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, Request{name, q})
	}
	return out, joinInvalid(errs)
}

// MustRequests is MakeRequests for amounts written in a program: it panics if one is wrong.
func MustRequests(texts map[string]string) Requests {
	r, err := MakeRequests(texts)
	if err != nil {
		panic(err)
	}
	return r
}

// NewRequests builds a vector from amounts in the units of their resources.
func NewRequests(amounts map[string]Quantity) Requests {
	out := make(Requests, 0, len(amounts))
	for name, q := range amounts {
		out = append(out, Request{name, q})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Get returns the amount of name, 0 if the vector lacks it.
func (r Requests) Get(name string) Quantity {
	i, ok := slices.BinarySearchFunc(r, name, func(x Request, n string) int { return compareStrings(x.Name, n) })
	if !ok {
		return 0
	}
	return r[i].Amount
}

// Plus returns the concatenation of r and s: the sum of both for each resource. It is the AND of
// the ESCHER paper.
func (r Requests) Plus(s Requests) Requests {
	if len(s) == 0 {
		return r
	}
	sum := make(map[string]Quantity, len(r)+len(s))
	for _, x := range r {
		sum[x.Name] = x.Amount
	}
	for _, x := range s {
		sum[x.Name] = sum[x.Name].Add(x.Amount)
	}
	return NewRequests(sum)
}

// MarshalJSON encodes the vector as an object of texts.
func (r Requests) MarshalJSON() ([]byte, error) {
	texts := make(map[string]string, len(r))
	for _, x := range r {
		texts[x.Name] = x.Amount.Format(ResourceID(x.Name))
	}
	return json.Marshal(texts)
}

// UnmarshalJSON decodes what MarshalJSON encodes; it also accepts numbers.
func (r *Requests) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return Errorf(Invalid, "requests: %s is not an object such as {\"cpu\": \"500m\"}", data)
	}
	texts := make(map[string]string, len(raw))
	for name, v := range raw {
		var s string
		if json.Unmarshal(v, &s) != nil {
			s = string(v)
		}
		texts[name] = s
	}
	made, err := MakeRequests(texts)
	*r = made
	return err
}

// Alternative is one of several request vectors of a task, in order of preference: a soft
// constraint, or an OR.
type Alternative struct {
	Requests Requests `json:"requests"`
	// After is the time after the submission from which the task may use it.
	After time.Duration `json:"after,omitempty"`
}

func (a *Alternative) fields(w *wire.Pass) {
	wire.List(w, 2, (*[]Request)(&a.Requests), (*Request).fields)
	wire.Integer(w, 3, &a.After)
}

func compareStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
