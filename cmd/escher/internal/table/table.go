// Package table prints values as a table, as JSON, as YAML, by name, or by a template. A type
// defines its columns and cells once; the other formats are its JSON.
package table

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Row is a value with a line in a table.
type Row interface {
	// Header returns the columns. It is called on the zero value too. The first column has the name
	// of the value.
	Header() []Column
	// Row returns the cell of each column.
	Row() []string
}

// Column is a column of a table.
type Column struct {
	Name string
	// Wide means that only the wide table has it.
	Wide bool
}

// Columns makes columns from names; those in parentheses are wide ones.
func Columns(names ...string) []Column {
	out := make([]Column, len(names))
	for i, name := range names {
		plain := strings.Trim(name, "()")
		out[i] = Column{Name: plain, Wide: plain != name}
	}
	return out
}

// Output says where and how to print rows.
type Output struct {
	To     io.Writer
	Format Format
	// Also names wide columns that the table has too.
	Also []string
	// Color colors phases.
	Color bool
	// Width is that of the terminal, in characters: longer lines are cut in their last column. 0
	// means no terminal.
	Width int
}

// Print writes rows in the format of the output.
func Print[T Row](out Output, rows []T) error {
	switch f := out.Format; {
	case f == Name:
		return names(out.To, rows)
	case f.Encoded():
		return EncodeList(out.To, f, rows)
	}
	_, err := io.WriteString(out.To, strings.Join(Lines(out, rows), "\n")+"\n")
	return err
}

// EncodeList is Encode for a list.
func EncodeList[T any](w io.Writer, f Format, rows []T) error {
	if rows == nil {
		rows = []T{}
	}
	if f.template() != "" {
		// Templates expect a list as an object with items.
		return Encode(w, f, map[string]any{"items": rows})
	}
	return Encode(w, f, rows)
}

// names writes the name of each row, once.
func names[T Row](w io.Writer, rows []T) error {
	last := ""
	for _, r := range rows {
		name := Line(r.Row()[0])
		if name == last {
			continue
		}
		last = name
		if _, err := fmt.Fprintln(w, name); err != nil {
			return err
		}
	}
	return nil
}

// Lines returns the lines of a table of rows, the header first.
func Lines[T Row](out Output, rows []T) []string {
	var zero T
	columns := zero.Header()
	header := make([]string, len(columns))
	for i, c := range columns {
		header[i] = strings.ToUpper(c.Name)
	}
	shown := make([]int, 0, len(columns))
	for i, c := range columns {
		if !c.Wide || out.Format == Wide || slices.Contains(out.Also, c.Name) {
			shown = append(shown, i)
		}
	}
	cells := [][]string{pickCells(shown, header)}
	for _, r := range rows {
		cells = append(cells, pickCells(shown, r.Row()))
	}
	names := pickCells(shown, header)
	return lay(out, names, cells)
}

// pickCells returns the cells to show. None is empty, so that tools can split columns.
func pickCells(shown []int, cells []string) []string {
	out := make([]string, len(shown))
	for i, at := range shown {
		if out[i] = Plain(strings.Join(strings.Fields(cells[at]), " ")); out[i] == "" {
			out[i] = "-"
		}
	}
	return out
}

// gap is the width between columns.
const gap = 2

// lay aligns cells.
func lay(out Output, names []string, cells [][]string) []string {
	widths := make([]int, len(names))
	for _, row := range cells {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, len(cells))
	for n, row := range cells {
		var b strings.Builder
		at := 0
		for i, cell := range row {
			last := i == len(row)-1
			if last {
				cell = fit(cell, out.Width-at)
			}
			length := utf8.RuneCountInString(cell)
			if out.Color && n > 0 {
				cell = paint(names[i], cell)
			}
			b.WriteString(cell)
			if !last {
				b.WriteString(strings.Repeat(" ", widths[i]-length+gap))
			}
			at += widths[i] + gap
		}
		lines[n] = b.String()
	}
	return lines
}

// leastCut is the least width to cut to: with less, terminals wrap.
const leastCut = 12

// fit cuts a text to a width.
func fit(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width || width < leastCut {
		return text
	}
	return string(runes[:width-1]) + "…"
}

// paint colors a phase.
func paint(column, cell string) string {
	if column != "PHASE" && column != "STATUS" {
		return cell
	}
	const green, yellow, red, faint = "32", "33", "31", "2"
	color := ""
	switch cell {
	case "running", "alive", "granted", "ready":
		color = green
	case "pending", "bound", "collecting", "handed-over", "releasing", "cordoned", "starting":
		color = yellow
	case "failed", "lost":
		color = red
	case "succeeded", "cancelled":
		color = faint
	default:
		return cell
	}
	return "\x1b[" + color + "m" + cell + "\x1b[0m"
}
