package cli

import (
	"strings"
	"testing"
)

func TestConsole(t *testing.T) {
	var out strings.Builder
	lines := newConsole(&Factory{Outside: Outside{Out: &out}}, true)
	a, b := lines.of("a"), lines.of("b")
	for _, text := range []string{"on", "e\ntwo\nthr", "ee"} {
		for _, w := range []*lineWriter{a, b} {
			if _, err := w.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.flush(); err != nil || out.String() != "a | one\na | two\nb | one\nb | two\na | three\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
