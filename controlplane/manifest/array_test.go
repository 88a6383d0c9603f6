package manifest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

func TestIndices(t *testing.T) {
	for text, want := range map[string][]int{
		"7":             {7},
		"0-3":           {0, 1, 2, 3},
		"1,3,5-7":       {1, 3, 5, 6, 7},
		"0-10:5":        {0, 5, 10},
		"0-9:4":         {0, 4, 8},
		"5, 0-1":        {5, 0, 1},
		"3-3":           {3},
		"1000000000":    {types.MaxCount},
		"0-9:100000000": {0},
	} {
		got, err := manifest.Indices(text).List()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if got := manifest.IndicesOf([]int{5, 1, 3, 2, 9}); got != "1-3,5,9" {
		t.Errorf("written as %s", got)
	}
	for text, want := range map[string]string{
		"":                                `"" is neither a number nor a range`,
		"a":                               `"a" is neither`,
		"-1":                              `"-1" is neither`,
		"1-":                              `"1-" is neither`,
		"+1":                              `"+1" is neither`,
		"1-2-3":                           `"1-2-3" is neither`,
		"1:2":                             `"1:2" is neither`,
		"0-9:0":                           "has a step of 0",
		"0-9:-1":                          "has a step of -1",
		"0-9:":                            "is neither",
		"0x10":                            "is neither",
		"1,,2":                            `"" is neither`,
		"9-0":                             "9-0 runs backwards: write 0-9",
		"0-4,2":                           "2 is there twice",
		"0-999999999":                     "makes more than 100000 tasks",
		"0-99999,100000":                  "makes more than 100000 tasks",
		"1000000001":                      "1000000001 is too large",
		"0-9223372036854775807":           "is too large",
		"99999999999999999999":            "is neither",
		strings.Repeat("1,", 1<<15) + "1": "at most 65536 are allowed",
	} {
		_, err := manifest.Indices(text).List()
		if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", text, err, want)
		}
	}
}

func TestParseArray(t *testing.T) {
	a, err := manifest.ParseArray("0-99%8")
	if err != nil || a.Indices != "0-99" || a.AtOnce != 8 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := manifest.ParseArray("3"); err != nil || a.AtOnce != 0 {
		t.Errorf("%+v, %v", a, err)
	}
	for text, want := range map[string]string{
		"0-9%":        `array: "" is no number`,
		"0-9%x":       `array: "x" is no number`,
		"0-9%0":       "array: %0 would let none run",
		"0-9%-1":      "array.atOnce: -1 is out of range",
		"0-9%8%8":     `array: "8%8" is no number`,
		"%8":          `array.indices: "" is neither`,
		"9-0%8":       "array.indices: 9-0 runs backwards",
		"0-9%1000000": "array.atOnce: 1000000 is out of range",
	} {
		if _, err := manifest.ParseArray(text); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestIndicesAreWrittenShort(t *testing.T) {
	for want, indices := range map[manifest.Indices][]int{"": nil, "7": {7}, "1-3,5,9": {5, 1, 3, 2, 9}} {
		if got := manifest.IndicesOf(indices); got != want {
			t.Errorf("%v is written as %s", indices, got)
		}
	}
}
