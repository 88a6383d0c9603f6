package cmdutil

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Screen is a part of a terminal that is drawn repeatedly.
type Screen struct {
	To   io.Writer
	Size func() (width, height int)
	// drawn is the last drawing.
	drawn   []string
	started bool
}

// Escape sequences of terminals: while the screen is drawn, lines are cut instead of wrapped, and
// the cursor is hidden.
const (
	ScreenBegin = "\x1b[?7l\x1b[?25l"
	ScreenEnd   = "\x1b[?7h\x1b[?25h"
	EraseDown   = "\r\x1b[J"
)

// Draw replaces the last drawing by these lines, as many as fit.
func (s *Screen) Draw(lines []string) {
	width, height := s.Size()
	// The cursor is in the line below the last one.
	if room := max(2, height-1); len(lines) > room {
		more := fmt.Sprintf("… %d more", len(lines)-room+1)
		lines = append(lines[:room-1:room-1], more)
	}
	lines = slices.Clone(lines)
	for i, line := range lines {
		lines[i] = cut(line, width)
	}
	if s.started && slices.Equal(lines, s.drawn) {
		return
	}
	var b strings.Builder
	if !s.started {
		b.WriteString(ScreenBegin)
		s.started = true
	}
	if len(s.drawn) > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", len(s.drawn))
	}
	b.WriteString(EraseDown)
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	s.drawn = lines
	fmt.Fprint(s.To, b.String())
}

// cut cuts a line to a width: terminals that do not wrap write the rest over the last cell. Color
// sequences have no width.
func cut(line string, width int) string {
	shown, inSequence := 0, false
	var b strings.Builder
	for _, r := range line {
		switch {
		case r == '\x1b':
			inSequence = true
		case inSequence:
			inSequence = r != 'm'
		default:
			if shown++; shown > width {
				continue
			}
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Close restores the terminal, and leaves the last drawing.
func (s *Screen) Close() {
	if s.started {
		fmt.Fprint(s.To, ScreenEnd)
	}
}
