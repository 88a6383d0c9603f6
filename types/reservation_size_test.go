package types

import (
	"fmt"
	"sort"
	"strings"
	"testing"
)

// manyRequests returns a reservation of n bundles of a hundred requests with long names.
func manyRequests(n int) *Reservation {
	r := &Reservation{Accumulate: true}
	for i := range n {
		amounts := make(map[string]Quantity)
		for j := range MaxRequests {
			amounts[fmt.Sprintf("acme.com/n%s.%d-%d", strings.Repeat("x", 50), i, j)] = 1000
		}
		r.Bundles = append(r.Bundles, Bundle{Requests: NewRequests(amounts)})
	}
	return r
}

// TestLargestReservation: a reservation that is accepted stays readable with everything that is
// written into it later; a larger one is refused.
func TestLargestReservation(t *testing.T) {
	n := 1 + sort.Search(300, func(i int) bool { return manyRequests(i+1).Validate() != nil })
	if err := manyRequests(n).Validate(); err == nil || !strings.Contains(err.Error(), "bundles: are ") || !strings.Contains(err.Error(), "split the reservation") {
		t.Error(err)
	}
	r := manyRequests(n - 1)
	r.Raised, r.Submitted = MaxPriority, MaxMoment
	r.Collect = &Collect{LendUntil: MaxMoment}
	for range r.Bundles {
		r.Collect.On = append(r.Collect.On, strings.Repeat("n", MaxName))
	}
	value := Encode(1, r)
	if err := Decode(value, new(Reservation)); err != nil || len(value) < MaxMessageBytes*9/10 {
		t.Errorf("%d bundles, %d bytes: %v", n-1, len(value), err)
	}
	many := &Reservation{Bundles: make([]Bundle, MaxBundles)}
	for i := range many.Bundles {
		many.Bundles[i].Requests = NewRequests(map[string]Quantity{"cpu": 1000, "memory": 1000, "gpu": 1000})
	}
	if err := many.Validate(); err != nil {
		t.Error(err)
	}
}
