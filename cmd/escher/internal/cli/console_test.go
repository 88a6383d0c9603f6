package cli

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
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

// TestDrawn is about a line that the next one replaces.
func TestDrawn(t *testing.T) {
	var out strings.Builder
	lines := newConsole(&Factory{Outside: Outside{Err: &out}}, false)
	lines.draw(pullText(nodeapi.Pull{Done: 1 << 20, Total: 4 << 20}))
	lines.draw(pullText(nodeapi.Pull{Done: 4 << 20, Total: 4 << 20, Unpacking: true}))
	lines.say("one")
	lines.draw("two")
	lines.draw("")
	lines.draw("")
	want := "escher: pulled 1.0 MiB of 4.0 MiB" + eraseDown + "escher: unpacking 4.0 MiB" + eraseDown + "escher: one\nescher: two" + eraseDown
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
