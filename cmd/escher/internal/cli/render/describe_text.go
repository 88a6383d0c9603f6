package render

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
)

// Sheet writes names with texts, in groups.
type Sheet struct {
	to io.Writer
	// table is the group being written.
	table *tabwriter.Writer
	err   error
}

// NewSheet returns an empty sheet.
func NewSheet(w io.Writer) *Sheet {
	return &Sheet{to: w, table: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

// Line writes a name with a text, unless the text is empty.
func (s *Sheet) Line(name, text string) {
	if text != "" {
		fmt.Fprintf(s.table, "%s\t%s\n", name, table.Line(text))
	}
}

// Lines writes a name with several lines.
func (s *Sheet) Lines(name string, texts []string) {
	for i, text := range texts {
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(s.table, "%s\t%s\n", name, table.Line(text))
	}
}

// Group begins a group with a title.
func (s *Sheet) Group(title string) {
	s.Flush()
	fmt.Fprintf(s.to, "\n%s\n", title)
}

// Text writes lines unchanged, below a title.
func (s *Sheet) Text(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	s.Group(title)
	for _, line := range lines {
		fmt.Fprintf(s.to, "  %s\n", table.Line(line))
	}
}

func (s *Sheet) Flush() {
	if err := s.table.Flush(); s.err == nil {
		s.err = err
	}
}

// End writes the rest, and returns the first error.
func (s *Sheet) End() error {
	s.Flush()
	return s.err
}

// When formats a time, and how long ago it was.
func When(nanos int64, now time.Time) string {
	if nanos == 0 {
		return ""
	}
	at := time.Unix(0, nanos)
	if left := at.Sub(now); left > 0 {
		return fmt.Sprintf("%s (in %s)", at.UTC().Format(time.RFC3339), Shortly(left))
	}
	return fmt.Sprintf("%s (%s ago)", at.UTC().Format(time.RFC3339), Shortly(now.Sub(at)))
}

// Duration formats a duration, empty if it is 0.
func Duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// CommandText formats a command so that it can be pasted into a shell.
func CommandText(command []string) string {
	quoted := make([]string, len(command))
	for i, arg := range command {
		quoted[i] = arg
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'\\$`*?;&|<>()[]{}~#!") {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// MountText formats a mount as --mount takes it.
func MountText(m types.Mount) string {
	if m.Source == "" {
		return "scratch:" + m.Target
	}
	text := m.Source + ":" + m.Target
	if m.ReadOnly {
		text += ":ro"
	}
	return text
}

// RestartText formats a policy as --restart takes it, with its delays.
func RestartText(r *types.Restart) string {
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

// HoldingText formats a holding, with its devices.
func HoldingText(h types.Holding, ns string) string {
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
