package table_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
)

type fruit struct {
	Name  string `json:"name"`
	Phase string `json:"phase,omitempty"`
	Count int    `json:"count"`
	Taste string `json:"taste,omitempty"`
}

func (fruit) Header() []table.Column { return table.Columns("name", "phase", "(taste)") }
func (f fruit) Row() []string        { return []string{f.Name, f.Phase, f.Taste} }

func fruits() []fruit {
	return []fruit{{"apple", "running", 12000000, "sour\nand sweet"}, {"fig", "", 1, ""}}
}

func printed(t *testing.T, out table.Output, rows []fruit) string {
	t.Helper()
	var got strings.Builder
	out.To = &got
	if err := table.Print(out, rows); err != nil {
		t.Fatal(err)
	}
	return got.String()
}

func TestPrint(t *testing.T) {
	for format, want := range map[table.Format]string{
		table.Table:                            "NAME   PHASE\napple  running\nfig    -\n",
		table.Wide:                             "NAME   PHASE    TASTE\napple  running  sour and sweet\nfig    -        -\n",
		table.YAML:                             "- count: 12000000\n  name: apple\n  phase: running\n  taste: |-\n    sour\n    and sweet\n- count: 1\n  name: fig\n",
		table.Name:                             "apple\nfig\n",
		"jsonpath={.items[*].name}":            "apple fig\n",
		"jsonpath=.items[0].count":             "12000000\n",
		"jsonpath={.items[?(@.count>1)].name}": "apple\n",
		"jsonpath={.items[*].nothing}":         "",
		`jsonpath={range .items[*]}{.name}={.count}{"\n"}{end}`: "apple=12000000\nfig=1\n",
	} {
		if got := printed(t, table.Output{Format: format}, fruits()); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", format, got, want)
		}
	}
	if got := printed(t, table.Output{Format: table.JSON}, fruits()[1:]); got != "[\n  {\n    \"name\": \"fig\",\n    \"count\": 1\n  }\n]\n" {
		t.Errorf("json: %s", got)
	}
	if got := printed(t, table.Output{Format: table.JSON}, nil); got != "[]\n" {
		t.Errorf("no rows print as %q", got)
	}
}

// TestColor colors phases only, and keeps columns aligned; lines longer than the terminal are cut
// in the last column.
func TestColor(t *testing.T) {
	got := printed(t, table.Output{Format: table.Wide, Color: true, Width: 30}, fruits())
	want := "NAME   PHASE    TASTE\napple  \x1b[32mrunning\x1b[0m  sour and sweet\nfig    -        -\n"
	if got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if got := printed(t, table.Output{Format: table.Wide, Width: 29}, fruits()); !strings.Contains(got, "\napple  running  sour and swe…\n") {
		t.Errorf("29 characters wide:\n%s", got)
	}
}

func TestFormatIsChecked(t *testing.T) {
	var f table.Format
	for _, text := range []string{"xml", "jsonpath", "jsonpath=", "jsonpath={.items[", `jsonpath={.items[*].x`} {
		if err := f.Set(text); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "jsonpath={.items[*].id}") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"wide", "name", "jsonpath={.items[*].id}", "jsonpath=.revision"} {
		if err := f.Set(text); err != nil || string(f) != text {
			t.Errorf("%s: %v", text, err)
		}
	}
	for format, encoded := range map[table.Format]bool{table.Table: false, table.Name: false, table.JSON: true, "jsonpath=.x": true} {
		if format.Encoded() != encoded {
			t.Errorf("%s: encoded is %t", format, !encoded)
		}
	}
}

// TestPlain leaves nothing that a terminal obeys, in any format, and values stay the same.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"":              "",
		"grün 4 Gi — ✓": "grün 4 Gi — ✓",
		"a\tb\nc":       "a\tb\nc",
		"\x1b[31mred\r": `\u001b[31mred\u000d`,
		"\u009b2J\x7f":  `\u009b2J\u007f`,
		"abc\u202edef":  `abc\u202edef`,
		"a\x9bb":        "a\ufffdb",
	} {
		if got := table.Plain(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got, want := table.Line("a\nb\tc\rd\x1b"), `a b c d\u001b`; got != want {
		t.Errorf("a line is %q, want %q", got, want)
	}
	const hostile = "a\x1b[31m\u009b2J\u202e\nb"
	for _, format := range table.Formats()[2:4] {
		var out strings.Builder
		if err := table.Encode(&out, format, map[string]string{"k": hostile}); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		var back map[string]string
		if err := yaml.Unmarshal([]byte(out.String()), &back); err != nil || back["k"] != hostile {
			t.Errorf("%s: %q, %v", format, back, err)
		}
		if table.Plain(out.String()) != out.String() {
			t.Errorf("%s: %q", format, &out)
		}
	}
}
