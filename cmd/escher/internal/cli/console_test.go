package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/images"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
)

// said is a piece of output.
func said(stream tasklog.Stream, text string) tasklog.Piece {
	return tasklog.Piece{Stream: stream, At: time.Date(2026, 1, 31, 12, 0, 0, 7, time.UTC), Text: []byte(text)}
}

func TestConsole(t *testing.T) {
	huge := strings.Repeat("x", 64<<10)
	for name, c := range map[string]struct {
		many, timestamps, noPrefix bool
		color                      string
		pieces                     []tasklog.Piece
		out, errs                  string
	}{
		"of one, as it is": {
			pieces: []tasklog.Piece{said(1, "a\x00"), said(2, "b"), said(0, "c"), said(3, "\nescher: lost\n")},
			out:    "a\x00c\n", errs: "b\nescher: lost\n",
		},
		"of many, in lines": {
			many: true, pieces: []tasklog.Piece{said(1, "on"), said(2, "er"), said(1, "e\ntwo\nthr"), said(2, "r\n"), said(0, "old\n"), said(3, "\nescher: lost\n")},
			out: "a   | one\na   | two\na   | old\na   | thr\n", errs: "a   | err\na   | escher: lost\n",
		},
		"a huge line": {many: true, pieces: []tasklog.Piece{said(1, huge+huge), said(1, "y\n")}, out: "a   | " + huge + "\na   | " + huge + "y\n"},
		"with times": {
			timestamps: true, pieces: []tasklog.Piece{said(1, "one\nt"), said(1, "wo\r\n\n"), {Text: []byte("old\n")}},
			out: "2026-01-31T12:00:00.000000007Z one\n2026-01-31T12:00:00.000000007Z two\r\n2026-01-31T12:00:00.000000007Z \n-                              old\n",
		},
		"without ids": {many: true, noPrefix: true, pieces: []tasklog.Piece{said(1, "one")}, out: "one\n"},
		"with colors": {many: true, color: "always", pieces: []tasklog.Piece{said(1, "one\n")}, out: "\x1b[36ma   |\x1b[0m one\n"},
		"without":     {many: true, color: "never", pieces: []tasklog.Piece{said(1, "one\n")}, out: "a   | one\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs strings.Builder
			f := &cmdutil.Factory{Outside: cmdutil.Outside{Out: &out, Err: &errs, Getenv: func(string) string { return "" }}}
			if c.color != "" {
				if err := f.Color.Set(c.color); err != nil {
					t.Fatal(err)
				}
			}
			lines := cmdutil.NewConsole(f, c.many)
			lines.Timestamps, lines.Prefix = c.timestamps, lines.Prefix && !c.noPrefix
			a := lines.Of("a")
			lines.Of("bcd")
			for _, p := range c.pieces {
				if err := a.Write(p); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.End(); err != nil || out.String() != c.out || errs.String() != c.errs {
				t.Errorf("%q and %q, %v; want %q and %q", out.String(), errs.String(), err, c.out, c.errs)
			}
		})
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
