// Package table prints values as a table, as JSON or as YAML. A type that is to be
// printed says once what its columns are and what stands in them; the other formats
// are its JSON.
package table

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"github.com/escher-sched/escher/types"
)

// Row is a value with a line in a table.
type Row interface {
	// Header returns the columns. It is called on the zero value too.
	Header() []Column
	// Row returns what stands in each column.
	Row() []string
}

// Column is a column of a table.
type Column struct {
	Name string
	// Wide tells that only the wide table has it.
	Wide bool
}

// Columns makes columns of their names; those in parentheses are wide ones.
func Columns(names ...string) []Column {
	out := make([]Column, len(names))
	for i, name := range names {
		plain := strings.Trim(name, "()")
		out[i] = Column{Name: plain, Wide: plain != name}
	}
	return out
}

// Format is how values are printed.
type Format string

// The formats.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Formats lists the formats.
func Formats() []Format { return []Format{Table, Wide, JSON, YAML} }

// String returns the format; with Set and Type it makes a Format a flag.
func (f *Format) String() string { return string(*f) }

// Set checks and sets the format.
func (f *Format) Set(text string) error {
	for _, known := range Formats() {
		if text == string(known) {
			*f = known
			return nil
		}
	}
	return types.Errorf(types.Invalid, "output: %q is no format: use table, wide, json or yaml", text)
}

// Type names the kind of value in help texts.
func (f *Format) Type() string { return "format" }

// Print writes rows in the given format.
func Print[T Row](w io.Writer, f Format, rows []T) error {
	switch f {
	case JSON, YAML:
		if rows == nil {
			rows = []T{}
		}
		return Encode(w, f, rows)
	}
	return print(w, f == Wide, rows)
}

// Encode writes any value as JSON or YAML.
func Encode(w io.Writer, f Format, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return types.Errorf(types.Internal, "print %T: %w", v, err)
	}
	if f == YAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return types.Errorf(types.Internal, "print %T: %w", v, err)
		}
	}
	_, err = fmt.Fprintln(w, strings.TrimRight(string(text), "\n"))
	return err
}

func print[T Row](w io.Writer, wide bool, rows []T) error {
	var zero T
	columns := zero.Header()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = strings.ToUpper(c.Name)
	}
	line(t, columns, wide, names)
	for _, r := range rows {
		line(t, columns, wide, r.Row())
	}
	return t.Flush()
}

// line writes one line: no cell is empty, so that columns can be cut by tools.
func line(w io.Writer, columns []Column, wide bool, cells []string) {
	var shown []string
	for i, c := range columns {
		if c.Wide && !wide {
			continue
		}
		cell := strings.Join(strings.Fields(cells[i]), " ")
		if cell == "" {
			cell = "-"
		}
		shown = append(shown, cell)
	}
	fmt.Fprintln(w, strings.Join(shown, "\t"))
}
