package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
)

// sheet writes names with what is to be said of them, in groups.
type sheet struct {
	to io.Writer
	// table is the group being written.
	table *tabwriter.Writer
	err   error
}

// newSheet returns an empty sheet.
func newSheet(w io.Writer) *sheet {
	return &sheet{to: w, table: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

// line writes a name with a text, unless that is empty.
func (s *sheet) line(name, text string) {
	if text != "" {
		fmt.Fprintf(s.table, "%s\t%s\n", name, table.Line(text))
	}
}

// lines writes a name with a text a line.
func (s *sheet) lines(name string, texts []string) {
	for i, text := range texts {
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(s.table, "%s\t%s\n", name, table.Line(text))
	}
}

// group begins a group with a title.
func (s *sheet) group(title string) {
	s.flush()
	fmt.Fprintf(s.to, "\n%s\n", title)
}

// text writes lines as they are, below a title.
func (s *sheet) text(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	s.group(title)
	for _, line := range lines {
		fmt.Fprintf(s.to, "  %s\n", table.Line(line))
	}
}

func (s *sheet) flush() {
	if err := s.table.Flush(); s.err == nil {
		s.err = err
	}
}

// end writes what is left, and returns the first error.
func (s *sheet) end() error {
	s.flush()
	return s.err
}

// when says when something was, and how long ago.
func when(nanos int64, now time.Time) string {
	if nanos == 0 {
		return ""
	}
	at := time.Unix(0, nanos)
	if left := at.Sub(now); left > 0 {
		return fmt.Sprintf("%s (in %s)", at.UTC().Format(time.RFC3339), shortly(left))
	}
	return fmt.Sprintf("%s (%s ago)", at.UTC().Format(time.RFC3339), shortly(now.Sub(at)))
}

// duration formats a duration, empty if it is none.
func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// commandText formats a command so that it can be pasted into a shell.
func commandText(command []string) string {
	quoted := make([]string, len(command))
	for i, arg := range command {
		quoted[i] = arg
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'\\$`*?;&|<>()[]{}~#!") {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// mountText formats a mount as --mount takes it.
func mountText(m types.Mount) string {
	if m.Source == "" {
		return "scratch:" + m.Target
	}
	text := m.Source + ":" + m.Target
	if m.ReadOnly {
		text += ":ro"
	}
	return text
}

// restartText formats a policy as --restart takes it, with its delays.
func restartText(r *types.Restart) string {
	if r == nil {
		return "never"
	}
	text := string(r.When)
	if r.Limit > 0 {
		text += fmt.Sprintf(":%d", r.Limit)
	}
	if r.Delay > 0 {
		text += fmt.Sprintf(", first after %s", r.Delay)
	}
	if r.MaxDelay > 0 {
		text += fmt.Sprintf(", at most %s apart", r.MaxDelay)
	}
	return text
}

// holdingText formats what is held, with its devices.
func holdingText(h types.Holding, ns string) string {
	text := h.Resource.In(ns) + "=" + h.Amount.Format(h.Resource)
	if len(h.Devices) == 0 {
		return text
	}
	ids := make([]string, len(h.Devices))
	for i, d := range h.Devices {
		ids[i] = d.ID
	}
	return text + " (" + strings.Join(ids, ", ") + ")"
}
