package rig

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/escher-sched/escher/types"
)

// Row is one line of the result: medians of the rounds.
type Row struct {
	Scenario string  `json:"scenario"`
	Nodes    int     `json:"nodes"`
	Tasks    int     `json:"tasks"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	// Base names the reference, measured in the same run.
	Base  string  `json:"base,omitempty"`
	Floor float64 `json:"floor"`
	Ratio float64 `json:"ratio"`
	// Low and High enclose the true median, RatioLow and RatioHigh that of the ratio, with the
	// probability Confidence: see interval.
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	RatioLow   float64 `json:"ratio_low"`
	RatioHigh  float64 `json:"ratio_high"`
	Confidence float64 `json:"confidence"`
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	// Must is the bound for OK, Aim the desired bound.
	Must   string `json:"must"`
	OK     bool   `json:"ok"`
	Aim    string `json:"aim,omitempty"`
	AimOK  bool   `json:"aim_ok"`
	Rounds int    `json:"rounds"`
	// Ops is how many operations etcd allows in a transaction.
	Ops        int `json:"ops,omitempty"`
	Violations int `json:"violations"`
	// Details are further medians, each named with its unit.
	Details map[string]float64 `json:"details,omitempty"`
}

// NewRow begins a row with the medians of values.
func NewRow(cfg Config, name, unit string, values []float64) *Row {
	r := &Row{Scenario: name, Nodes: cfg.Nodes, Tasks: cfg.Tasks, Unit: unit, Rounds: len(values), Ops: cfg.Ops, OK: true, AimOK: true}
	r.Value = Median(values)
	r.Low, r.High, r.Confidence = interval(values)
	return r
}

// Over divides the values by a base, round by round.
func (r *Row) Over(base string, values, by []float64) *Row {
	all := Ratios(values, by)
	r.Base, r.Floor, r.Ratio = base, Median(by), Median(all)
	r.RatioLow, r.RatioHigh, _ = interval(all)
	return r
}

// AddDetail adds the median of another figure.
func (r *Row) AddDetail(name string, values []float64) *Row {
	if len(values) > 0 {
		if r.Details == nil {
			r.Details = make(map[string]float64)
		}
		r.Details[name] = Median(values)
	}
	return r
}

// AddDetails adds the medians of all figures of an arm except the row's own.
func (r *Row) AddDetails(s Samples, arm string, but ...string) *Row {
	for _, name := range s.figures(arm) {
		if !slices.Contains(but, name) && name != Violations {
			r.AddDetail(name, s.Of(arm, name))
		}
	}
	return r
}

// Target is the bound of a figure.
type Target struct {
	// Figure is the bounded figure: "" is the value, otherwise Ratio, or the name of a detail.
	Figure string
	// AtMost reports whether less is better.
	AtMost bool
	// Must and Aim are the bounds; Aim 0 means none.
	Must, Aim float64
	// Unit follows the bounds.
	Unit string
}

// Ratio is the figure of a target for the ratio.
const Ratio = "ratio"

// Require compares the row with its targets; must, unless 0, replaces the bound of the first.
func (r *Row) Require(must float64, targets ...Target) *Row {
	var musts, aims []string
	for i, t := range targets {
		if i == 0 {
			t.Must = cmp.Or(must, t.Must)
		}
		got := r.figure(t.Figure)
		musts = append(musts, t.text(t.Must))
		r.OK = r.OK && t.holds(got, t.Must)
		if t.Aim == 0 {
			continue
		}
		aims = append(aims, t.text(t.Aim))
		r.AimOK = r.AimOK && t.holds(got, t.Aim)
	}
	r.Must, r.Aim = strings.Join(musts, ", "), strings.Join(aims, ", ")
	r.AimOK = r.AimOK && r.Aim != ""
	return r
}

// AddViolations adds to the number of violations: a row with any is not ok.
func (r *Row) AddViolations(n []float64) *Row {
	for _, x := range n {
		r.Violations += int(x)
	}
	r.OK, r.AimOK = r.OK && r.Violations == 0, r.AimOK && r.Violations == 0
	return r
}

func (r *Row) figure(name string) float64 {
	switch name {
	case "":
		return r.Value
	case Ratio:
		return r.Ratio
	}
	return r.Details[name]
}

func (t Target) holds(got, bound float64) bool {
	if t.AtMost {
		return got <= bound
	}
	return got >= bound
}

func (t Target) text(bound float64) string {
	sign, unit := ">= ", t.Unit
	if t.AtMost {
		sign = "<= "
	}
	if t.Figure == Ratio {
		unit = "x"
	}
	return sign + strconv.FormatFloat(bound, 'f', -1, 64) + unit
}

// WriteTable writes rows as a table, with the further figures below.
func WriteTable(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "SCENARIO\tNODES\tTASKS\tVALUE\tLOW\tHIGH\tUNIT\tBASE\tFLOOR\tRATIO\tP50 MS\tP99 MS\tMUST\tOK\tAIM\tVIOLATIONS\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t%.1f\t%.1f\t%s\t%t\t%s\t%d\t\n",
			r.Scenario, r.Nodes, r.Tasks, short(r.Value), short(r.Low), short(r.High), r.Unit, cmp.Or(r.Base, "-"), short(r.Floor), r.Ratio,
			r.P50, r.P99, r.Must, r.OK, cmp.Or(r.Aim, "-"), r.Violations)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if len(r.Details) == 0 {
			continue
		}
		var all []string
		for _, name := range slices.Sorted(maps.Keys(r.Details)) {
			all = append(all, name+" "+short(r.Details[name]))
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", r.Scenario, strings.Join(all, ", ")); err != nil {
			return err
		}
	}
	return nil
}

// short is a figure with its significant digits.
func short(x float64) string {
	if x >= 100 || x <= -100 || x == 0 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// WriteJSON writes rows as lines.
func WriteJSON(w io.Writer, rows []Row) error {
	enc := json.NewEncoder(w)
	for _, r := range rows {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// Violated returns an error if an audit of any of the rows found violations.
func Violated(rows []Row) error {
	n := 0
	for _, r := range rows {
		n += r.Violations
	}
	if n > 0 {
		return types.Errorf(types.Internal, "bench: the audit found %d violations", n)
	}
	return nil
}
