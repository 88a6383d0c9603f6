package tasksocket

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/cluster"
)

// TestDocumented finds every request in the documentation, and no other.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/task-api.md")
	if err != nil {
		t.Fatal(err)
	}
	var served, written []string
	for _, r := range new(Server).routes() {
		served = append(served, r.pattern)
	}
	for _, part := range strings.Split(string(text), "### `")[1:] {
		request, _, _ := strings.Cut(part, "`")
		written = append(written, request)
	}
	slices.Sort(served)
	slices.Sort(written)
	if !slices.Equal(served, written) {
		t.Errorf("served: %v\ndocumented: %v", served, written)
	}
}

// TestFieldsDocumented finds the fields of every request and answer in their table of the
// documentation, and no others. The row of a field that is an object shows its fields, or leads to
// them.
func TestFieldsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/task-api/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	for heading, of := range map[string][]any{
		"Launch": {Launch{}}, "Task": {Task{}}, "Spec": {Spec{}}, "Resource": {Set{}}, "Reservation": {Reserve{}}, "Stop": {Stop{}}, "Evict": {Evict{}},
		"Transaction": {Transaction{}}, "Status": {Status{}}, "State": {State{}}, "Node": {cluster.NodeState{}}, "Others": {Launched{}, Committed{}, Tasks{}, Waited{}},
	} {
		_, part, _ := strings.Cut(string(text), "\n### "+heading+"\n")
		part, _, _ = strings.Cut(part, "\n#")
		rows := make(map[string]string)
		for line := range strings.Lines(part) {
			line, ok := strings.CutPrefix(line, "| ")
			names, row, _ := strings.Cut(line, " | ")
			if !ok {
				continue
			}
			for _, name := range strings.Split(names, ", ") {
				if name, ok := strings.CutPrefix(name, "`"); ok {
					rows[strings.TrimSuffix(name, "`")] = row
				}
			}
		}
		named := make(map[string]bool)
		for _, one := range of {
			for name, inner := range fieldsOf(reflect.TypeOf(one)) {
				row, ok := rows[name]
				if named[name] = true; !ok {
					t.Errorf("%s has no row %s", heading, name)
				}
				for name := range fieldsOf(inner) {
					if !strings.Contains(row, fmt.Sprintf("%q", name)) && !strings.Contains(row, "`"+name+"`") && !strings.Contains(row, "](") {
						t.Errorf("%s: %s does not show %s", heading, row, name)
					}
				}
			}
		}
		for name := range rows {
			if !named[name] {
				t.Errorf("%s has a row %s, which is no field", heading, name)
			}
		}
	}
}

// fieldsOf returns the JSON names of the fields of a struct, or of the elements of a list of them,
// with their types; none if it has a JSON form of its own.
func fieldsOf(of reflect.Type) map[string]reflect.Type {
	own := reflect.TypeFor[json.Marshaler]()
	for !of.Implements(own) && (of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice) {
		of = of.Elem()
	}
	out := make(map[string]reflect.Type)
	if of.Kind() != reflect.Struct || of.Implements(own) {
		return out
	}
	for _, f := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !f.Anonymous && f.IsExported() && name != "-" {
			out[cmp.Or(name, f.Name)] = f.Type
		}
	}
	return out
}
