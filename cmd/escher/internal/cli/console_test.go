package cli

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/images"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
)

func TestConsole(t *testing.T) {
	var out strings.Builder
	lines := cmdutil.NewConsole(&cmdutil.Factory{Outside: cmdutil.Outside{Out: &out}}, true)
	a, b := lines.Of("a"), lines.Of("b")
	for _, text := range []string{"on", "e\ntwo\nthr", "ee"} {
		for _, w := range []*cmdutil.LineWriter{a, b} {
			if _, err := w.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.Flush(); err != nil || out.String() != "a | one\na | two\nb | one\nb | two\na | three\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestDrawn replaces a line by the next one.
func TestDrawn(t *testing.T) {
	var out strings.Builder
	lines := cmdutil.NewConsole(&cmdutil.Factory{Outside: cmdutil.Outside{Err: &out}}, false)
	lines.Draw(images.PullText(nodeapi.Pull{Done: 1 << 20, Total: 4 << 20}))
	lines.Draw(images.PullText(nodeapi.Pull{Done: 4 << 20, Total: 4 << 20, Unpacking: true}))
	lines.Say("one")
	lines.Draw("two")
	lines.Draw("")
	lines.Draw("")
	want := "escher: pulled 1.0 MiB of 4.0 MiB" + cmdutil.EraseDown + "escher: unpacking 4.0 MiB" + cmdutil.EraseDown + "escher: one\nescher: two" + cmdutil.EraseDown
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
