package rig

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

func TestRow(t *testing.T) {
	cfg := Config{Nodes: 10, Tasks: 20, Ops: 128}
	values, by := []float64{80, 100, 90}, []float64{100, 100, 100}
	row := NewRow(cfg, "bind", "tasks/s", values).Over("floor", values, by).AddDetail("scheduler_mib", []float64{1, 3, 2}).AddDetail("none", nil)
	if row.Value != 90 || row.Low != 80 || row.High != 100 || row.Floor != 100 || row.Ratio != 0.9 || row.RatioLow != 0.8 || row.RatioHigh != 1 || row.Rounds != 3 {
		t.Errorf("got %+v", row)
	}
	if len(row.Details) != 1 || row.Details["scheduler_mib"] != 2 {
		t.Errorf("details %v", row.Details)
	}
}

func TestRequire(t *testing.T) {
	for _, test := range []struct {
		name      string
		must      float64
		targets   []Target
		ok, aimOK bool
		text, aim string
	}{
		{"nothing", 0, nil, true, false, "", ""},
		{"reached", 0, []Target{{Must: 90, Aim: 100, Unit: "/s"}}, true, false, ">= 90/s", ">= 100/s"},
		{"aim reached", 0, []Target{{Must: 50, Aim: 90}}, true, true, ">= 50", ">= 90"},
		{"missed", 0, []Target{{Must: 91}}, false, false, ">= 91", ""},
		{"one of two missed", 0, []Target{{Must: 1}, {Figure: Ratio, Must: 0.95, Aim: 1}}, false, false, ">= 1, >= 0.95x", ">= 1x"},
		{"at most", 0, []Target{{Figure: "mib", AtMost: true, Must: 2, Aim: 1, Unit: " MiB"}}, true, false, "<= 2 MiB", "<= 1 MiB"},
		{"too much", 0, []Target{{Figure: "mib", AtMost: true, Must: 1.5}}, false, false, "<= 1.5", ""},
		{"another bound", 95, []Target{{Must: 1}, {Figure: Ratio, Must: 0.1}}, false, false, ">= 95, >= 0.1x", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			row := NewRow(Config{}, "x", "", []float64{90}).Over("y", []float64{90}, []float64{100}).AddDetail("mib", []float64{2})
			row.AddViolations([]float64{0}).Require(test.must, test.targets...)
			if row.OK != test.ok || row.AimOK != test.aimOK || row.Must != test.text || row.Aim != test.aim {
				t.Errorf("got %t, %t, %q, %q", row.OK, row.AimOK, row.Must, row.Aim)
			}
		})
	}
}

// TestViolationIsNotOK: the order of found and require does not matter.
func TestViolationIsNotOK(t *testing.T) {
	before := NewRow(Config{}, "x", "", []float64{1}).AddViolations([]float64{0, 2}).Require(0, Target{Must: 1, Aim: 1})
	after := NewRow(Config{}, "x", "", []float64{1}).Require(0, Target{Must: 1, Aim: 1}).AddViolations([]float64{0, 2})
	for _, row := range []*Row{before, after} {
		if row.OK || row.AimOK || row.Violations != 2 || !types.Is(Violated([]Row{{}, *row}), types.Internal) {
			t.Errorf("got %+v", row)
		}
	}
	if err := Violated([]Row{{}, {}}); err != nil {
		t.Error(err)
	}
}

// TestJSON keeps the names of the fields: other programs read them.
func TestJSON(t *testing.T) {
	var out bytes.Buffer
	if err := WriteJSON(&out, []Row{{Scenario: "bind", Aim: "x", Base: "floor", Ops: 128, Details: map[string]float64{"a": 1}}}); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields("scenario nodes tasks value unit floor ratio p50_ms p99_ms must ok violations " +
		"base low high ratio_low ratio_high confidence aim aim_ok rounds ops details") {
		if _, ok := got[name]; !ok {
			t.Errorf("no field %s in %s", name, out.String())
		}
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	row := NewRow(Config{Nodes: 5, Tasks: 50}, "bind", "tasks/s", []float64{12345.6}).AddDetail("b_us", []float64{0.25}).AddDetail("a_mib", []float64{512})
	if err := WriteTable(&out, []Row{*row, {Scenario: "idle"}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || !strings.Contains(lines[1], " 12346 ") || lines[3] != "bind: a_mib 512, b_us 0.25" {
		t.Errorf("got %s", out.String())
	}
}
