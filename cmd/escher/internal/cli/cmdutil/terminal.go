package cmdutil

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
)

// TerminalSize returns the width and height in characters of the terminal behind a stream; ok is
// false if it is not a terminal.
func (f *Factory) TerminalSize(stream any) (width, height int, ok bool) {
	stream = behind(stream)
	if f.Terminal != nil {
		return f.Terminal(stream)
	}
	file, isFile := stream.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil || width == 0 || height == 0 {
		return 80, 24, true // the classic size
	}
	return width, height, true
}

// Output returns where and how to print rows.
func (f *Factory) Output() table.Output {
	width, _, terminal := f.TerminalSize(f.Out)
	out := table.Output{To: f.Raw(), Format: f.Format, Color: f.colored(terminal), Width: width}
	if f.ShowLabels {
		out.Also = []string{"labels"}
	}
	return out
}

// colored reports whether phases are colored: see https://no-color.org.
func (f *Factory) colored(terminal bool) bool {
	switch f.Color {
	case ColorAlways:
		return true
	case ColorNever:
		return false
	}
	return terminal && f.Getenv("NO_COLOR") == "" && f.Getenv("TERM") != "dumb"
}

// colorMode says when to use colors. It is a flag.
type colorMode string

// The modes.
const (
	ColorAuto   colorMode = "auto"
	ColorAlways colorMode = "always"
	ColorNever  colorMode = "never"
)

// String returns the mode.
func (c *colorMode) String() string { return string(*c) }

// Set checks and sets the mode.
func (c *colorMode) Set(text string) error {
	switch m := colorMode(text); m {
	case ColorAuto, ColorAlways, ColorNever:
		*c = m
		return nil
	}
	return types.Errorf(types.Invalid, "color: %q is unknown: use auto, always or never", text)
}

// Type names the kind of value in help texts.
func (c *colorMode) Type() string { return "when" }

// Show prints one object in the format of the flags: encoded, by its name, or as text.
func (f *Factory) Show(v any, name string, text func(w io.Writer) error) error {
	switch {
	case f.Format.Encoded():
		return table.Encode(f.Out, f.Format, v)
	case f.Format == table.Name:
		_, err := fmt.Fprintln(f.Out, name)
		return err
	}
	return text(f.Out)
}
