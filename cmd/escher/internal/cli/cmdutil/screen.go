package cmdutil

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Screen is the part of a terminal that is drawn again and again.
type Screen struct {
	To   io.Writer
	Size func() (width, height int)
	// drawn is what was drawn last.
	drawn   []string
	started bool
}

// Sequences that terminals obey: lines are cut instead of wrapped while the screen
// is drawn, and the cursor is not seen.
const (
	ScreenBegin = "\x1b[?7l\x1b[?25l"
	ScreenEnd   = "\x1b[?7h\x1b[?25h"
	EraseDown   = "\r\x1b[J"
)

// Draw replaces what was drawn by these lines, as many as there is room for.
func (s *Screen) Draw(lines []string) {
	width, height := s.Size()
	// The line below the last one is where the cursor is.
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

// cut cuts a line to a width: what is beyond that, a terminal that does not wrap writes
// over its last cell. Sequences that paint take no room.
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

// Close gives the terminal back, with what was drawn last.
func (s *Screen) Close() {
	if s.started {
		fmt.Fprint(s.To, ScreenEnd)
	}
}
