package room

import (
	"fmt"
	"testing"
)

// TestOnFewer moves tasks onto fewer nodes, the fewest with room for all.
func TestOnFewer(t *testing.T) {
	for name, c := range map[string]struct {
		all  []target
		want string // how many come to each node
	}{
		"onto an empty node":        {[]target{{"a", 1, 1, 0}, {"b", 1, 1, 0}, {"c", 0, 2, 0}}, "c+2"},
		"to where most are":         {[]target{{"a", 1, 4, 0}, {"b", 3, 4, 0}}, "b+1"},
		"to the largest":            {[]target{{"a", 2, 3, 0}, {"b", 1, 5, 0}, {"c", 1, 4, 0}}, "b+3"},
		"onto two of three":         {[]target{{"a", 2, 3, 0}, {"b", 2, 3, 0}, {"c", 2, 3, 0}}, "a+1 b+1"},
		"no room":                   {[]target{{"a", 1, 1, 0}, {"b", 1, 1, 0}}, ""},
		"no fewer":                  {[]target{{"a", 1, 1, 0}, {"b", 1, 1, 0}, {"c", 0, 1, 0}}, ""},
		"all are on one":            {[]target{{"a", 3, 9, 0}, {"b", 0, 9, 0}}, ""},
		"one is full, none comes":   {[]target{{"a", 3, 3, 0}, {"b", 1, 2, 0}, {"c", 1, 2, 0}}, ""},
		"the rest fits on the last": {[]target{{"a", 2, 4, 0}, {"b", 1, 2, 0}, {"c", 1, 1, 0}}, "a+2"},
	} {
		tasks, on := 0, 0
		for _, x := range c.all {
			tasks += x.has
			if x.has > 0 {
				on++
			}
		}
		got := ""
		for _, x := range onFewer(c.all, tasks, on) {
			got += fmt.Sprintf(" %s+%d", x.node, x.comes)
		}
		if got != "" {
			got = got[1:]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
