package types

import "testing"

func TestMinusAtTheBound(t *testing.T) {
	for _, c := range []struct{ got, want Quantity }{
		{Inf.Minus(MaxAllocated - MaxQuantity), Inf},
		{Inf.Minus(MaxAllocated - MaxQuantity + 1), MaxQuantity - 1},
		{Inf.Minus(MaxAllocated), 0},
		{Inf.Minus(MaxAllocated + 1), -1},
		{(Inf - 1).Minus(MaxAllocated), 0},
		{MaxQuantity.Minus(MaxQuantity + 1), -1},
	} {
		if c.got != c.want {
			t.Errorf("got %d, want %d", c.got, c.want)
		}
	}
}
