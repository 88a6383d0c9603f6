package table_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
)

// TestPhaseColors colors each kind of phase in its own way, and leaves unknown ones.
func TestPhaseColors(t *testing.T) {
	var rows []fruit
	for _, phase := range []string{"ready", "collecting", "lost", "cancelled", "ripe"} {
		rows = append(rows, fruit{Name: "x", Phase: phase})
	}
	got := table.Lines(table.Output{Color: true}, rows)
	for i, want := range []string{"NAME  PHASE", "x     \x1b[32mready\x1b[0m", "x     \x1b[33mcollecting\x1b[0m", "x     \x1b[31mlost\x1b[0m", "x     \x1b[2mcancelled\x1b[0m", "x     ripe"} {
		if got[i] != want {
			t.Errorf("%q, want %q", got[i], want)
		}
	}
	if got := table.Lines(table.Output{Also: []string{"taste"}}, []fruit{{Taste: "sour"}}); got[1] != "-     -      sour" {
		t.Errorf("an added column: %q", got)
	}
}

// TestNamesOnce prints a name once in a row of lines.
func TestNamesOnce(t *testing.T) {
	rows := []fruit{{Name: "a"}, {Name: "a"}, {Name: "b\nc"}, {Name: "a"}}
	if got := printed(t, table.Output{Format: table.Name}, rows); got != "a\nb c\na\n" {
		t.Errorf("%q", got)
	}
}

// TestNarrow cuts no line to less than it can hold.
func TestNarrow(t *testing.T) {
	rows := []fruit{{Name: "apple", Phase: strings.Repeat("ü", 20)}}
	for width, want := range map[int]string{0: strings.Repeat("ü", 20), 18: strings.Repeat("ü", 20), 19: strings.Repeat("ü", 11) + "…", 27: strings.Repeat("ü", 20)} {
		if got := table.Lines(table.Output{Width: width}, rows)[1]; got != "apple  "+want {
			t.Errorf("%d wide: %q", width, got)
		}
	}
}

// TestEncodeErrors says what cannot be encoded, picked or written.
func TestEncodeErrors(t *testing.T) {
	for _, format := range []table.Format{table.JSON, table.YAML, "jsonpath={.x}"} {
		if err := table.Encode(io.Discard, format, make(chan int)); !types.Is(err, types.Internal) || !strings.Contains(err.Error(), "print chan int") {
			t.Errorf("%s: %v", format, err)
		}
		if err := table.Encode(full{}, format, map[string]any{"x": 1.5}); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", format, err)
		}
	}
	for _, format := range []table.Format{table.Table, table.Name} {
		if err := table.Print(table.Output{To: full{}, Format: format}, fruits()); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", format, err)
		}
	}
	err := table.Encode(io.Discard, "jsonpath={.x[5]}", map[string]any{"x": []int{1}})
	if !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), "output: jsonpath {.x[5]}: ") || !strings.HasSuffix(err.Error(), "-o json shows what there is") {
		t.Errorf("%v", err)
	}
	if err := table.Encode(io.Discard, "jsonpath={.x", 1); !types.Is(err, types.Invalid) {
		t.Errorf("a template that cannot be read: %v", err)
	}
}

// TestPickedNumbers prints whole numbers whole, and others as they are.
func TestPickedNumbers(t *testing.T) {
	for value, want := range map[any]string{int64(1) << 60: "1152921504606846976\n", 1.5: "1.5\n", -3: "-3\n", true: "true\n", "": ""} {
		var out strings.Builder
		if err := table.Encode(&out, "jsonpath=x", map[string]any{"x": value}); err != nil || out.String() != want {
			t.Errorf("%v: %q, %v", value, &out, err)
		}
	}
}

var errFull = errors.New("no space")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
