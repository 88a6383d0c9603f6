// Package words has the small parts of sentences for people: numbers with nouns, and lists.
package words

import (
	"fmt"
	"strings"
)

// Count returns a number with its noun: "1 task", "2 tasks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// List joins names: "a", "a and b", "a, b and c". It names at most the first ones, and counts the
// others: "a, b and 7 more".
func List(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}
