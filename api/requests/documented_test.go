package requests_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane/cluster"
)

// TestFieldsDocumented finds the fields of every request and answer in their table of the
// documentation, and no others. The row of a field that is an object shows its fields, or leads to
// them.
func TestFieldsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/task-api/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	for heading, of := range map[string][]any{
		"Launch": {requests.Launch{}}, "Task": {requests.Task{}}, "Spec": {requests.Spec{}}, "Resource": {requests.Set{}}, "Reservation": {requests.Reserve{}}, "Stop": {requests.Stop{}}, "Evict": {requests.Evict{}},
		"Transaction": {requests.Transaction{}}, "Status": {requests.Status{}}, "State": {requests.State{}}, "Node": {cluster.NodeState{}}, "Others": {requests.Launched{}, requests.Committed{}, requests.Tasks{}, requests.Waited{}},
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
