package table_test

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
)

type fruit struct {
	Name  string `json:"name"`
	Taste string `json:"taste,omitempty"`
}

func (fruit) Header() []table.Column { return table.Columns("name", "(taste)") }
func (f fruit) Row() []string        { return []string{f.Name, f.Taste} }

func TestPrint(t *testing.T) {
	rows := []fruit{{"apple", "sour\nand sweet"}, {"fig", ""}}
	for format, want := range map[table.Format]string{
		table.Table: "NAME\napple\nfig\n",
		table.Wide:  "NAME   TASTE\napple  sour and sweet\nfig    -\n",
		table.JSON:  "[\n  {\n    \"name\": \"apple\",\n    \"taste\": \"sour\\nand sweet\"\n  },\n  {\n    \"name\": \"fig\"\n  }\n]\n",
		table.YAML:  "- name: apple\n  taste: |-\n    sour\n    and sweet\n- name: fig\n",
	} {
		var got strings.Builder
		if err := table.Print(&got, format, rows); err != nil {
			t.Fatal(err)
		}
		if got.String() != want {
			t.Errorf("%s:\n%s\nwant\n%s", format, got.String(), want)
		}
	}
}

func TestPrintNothing(t *testing.T) {
	var got strings.Builder
	if err := table.Print[fruit](&got, table.JSON, nil); err != nil || got.String() != "[]\n" {
		t.Errorf("no rows print as %q, %v", got.String(), err)
	}
}

func TestFormatIsChecked(t *testing.T) {
	var f table.Format
	if err := f.Set("xml"); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "xml") {
		t.Errorf("xml: %v", err)
	}
	if err := f.Set("wide"); err != nil || f != table.Wide {
		t.Errorf("wide: %v", err)
	}
}
