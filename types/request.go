package types

import (
	"encoding/json"
	"maps"
	"slices"
	"sort"
	"time"
)

// Request asks for an amount of a resource, by the name its namespace knows it.
type Request struct {
	Name   string
	Amount Quantity
}

func (r *Request) fields(w *wire) {
	text(w, 2, &r.Name)
	integer(w, 3, &r.Amount)
}

// Requests is a request vector: all of it, on one node. It is sorted by name and
// names each resource once; make it with NewRequests or MakeRequests.
type Requests []Request

// MakeRequests parses a vector given as text, {"cpu": "500m", "gpu@train": "1"}.
// Invalid: the error names every amount that is wrong.
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

// NewRequests makes a vector of amounts in the units of their resources.
func NewRequests(amounts map[string]Quantity) Requests {
	out := make(Requests, 0, len(amounts))
	for name, q := range amounts {
		out = append(out, Request{name, q})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Get returns the amount of name, 0 if it is not in the vector.
func (r Requests) Get(name string) Quantity {
	i, ok := slices.BinarySearchFunc(r, name, func(x Request, n string) int { return compareStrings(x.Name, n) })
	if !ok {
		return 0
	}
	return r[i].Amount
}

// Plus returns r and s concatenated: where both name a resource, the amounts add
// up. AND, in the words of the paper.
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

// MarshalJSON writes the vector as an object of texts.
func (r Requests) MarshalJSON() ([]byte, error) {
	texts := make(map[string]string, len(r))
	for _, x := range r {
		texts[x.Name] = x.Amount.Format(ResourceID(x.Name))
	}
	return json.Marshal(texts)
}

// UnmarshalJSON reads what MarshalJSON writes; numbers are accepted too.
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

// Alternative is one of several vectors a task may be bound by, in order of
// preference: soft constraints, and OR.
type Alternative struct {
	Requests Requests `json:"requests"`
	// After is how long after its submission the task may take it.
	After time.Duration `json:"after,omitempty"`
}

func (a *Alternative) fields(w *wire) {
	list(w, 2, (*[]Request)(&a.Requests), (*Request).fields)
	integer(w, 3, &a.After)
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
