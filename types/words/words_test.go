package words_test

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/types/words"
)

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 tasks", 1: "1 task", 2: "2 tasks"} {
		if got := words.Count(n, "task"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestList(t *testing.T) {
	for names, want := range map[string]string{
		"": "", "a": "a", "a b": "a and b", "a b c": "a, b and c", "a b c d": "a, b, c and 1 more", "a b c d e": "a, b, c and 2 more",
	} {
		if got := words.List(strings.Fields(names), 3); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
