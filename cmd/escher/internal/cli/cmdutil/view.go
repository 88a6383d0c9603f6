package cmdutil

import (
	"cmp"
	"slices"
)

// SortBy sorts rows by a key of each.
func SortBy[T any, K cmp.Ordered](rows []T, key func(T) K) {
	slices.SortStableFunc(rows, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}
