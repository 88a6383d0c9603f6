package room

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestWaiters keeps the first ones, of any number, in any order.
func TestWaiters(t *testing.T) {
	for _, n := range []int{0, 1, mostWaiters, mostWaiters + 1, 2 * mostWaiters, 2*mostWaiters + 1, 5000} {
		all := make([]waiter, n)
		for i := range all {
			all[i] = waiter{name: fmt.Sprintf("w%05d", i), priority: 3 - i/1000, since: int64(i / 10)}
		}
		for seed := range uint64(10) {
			var kept waiters
			for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(n) {
				kept.add(all[i])
			}
			got := kept.first()
			if !slices.EqualFunc(got, all[:min(n, mostWaiters)], func(a, b waiter) bool { return a.name == b.name }) {
				t.Fatalf("of %d, seed %d: %d are kept, from %v", n, seed, len(got), got[:min(len(got), 3)])
			}
			if len(kept.all) >= 2*mostWaiters {
				t.Errorf("of %d, %d are in memory", n, len(kept.all))
			}
		}
	}
}
