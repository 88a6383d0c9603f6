package types

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestParseQuantity(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Quantity
	}{
		{"cpu", "2", 2000}, {"cpu", "0.5", 500}, {"cpu", "500m", 500}, {"cpu", "0.001", 1},
		{"cpu", "1k", 1000000}, {"cpu", "0", 0}, {"cpu", " 2 ", 2000}, {"cpu", "1e3", 1000000},
		{"gpu", "0.125", 125}, {"slot", "inf", Inf}, {"slot", "INF", Inf}, {"memory", "inf", Inf},
		{"memory", "1B", 1}, {"memory", "1Ki", 1024}, {"memory", "4Gi", 4 << 30}, {"memory", "4GiB", 4 << 30},
		{"memory", "1k", 1000}, {"memory", "2.5M", 2500000}, {"memory", "0.5Ki", 512}, {"memory", "0", 0},
		{"disk", "1Ti", 1 << 40}, {"memory@train", "1Gi", 1 << 30}, {"a:memory@train", "1Gi", 1 << 30},
		{"gpu@train", "1", 1000}, {"acme.com/fpga", "1", 1000}, {"memory", "8Pi", MaxQuantity},
	} {
		got, err := ParseQuantity(c.name, c.text)
		if err != nil || got != c.want {
			t.Errorf("%s %q: got %d, %v, want %d", c.name, c.text, got, err, c.want)
		}
	}
}

func TestParseQuantityRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, remedy string }{
		{"cpu", "-1", "0 or more"}, {"memory", "-1Gi", "0 or more"}, {"memory", "-1", "0 or more"}, {"cpu", "1e-400", "such as 2, 0.5"},
		{"cpu", "9e18", "inf means no bound"}, {"cpu", "1e30", "inf means no bound"}, {"cpu", "9223372036854775807", "inf means no bound"},
		{"memory", "2Ei", "inf means no bound"}, {"memory", "9Pi", "inf means no bound"}, {"cpu", "1e1000000000", "write"},
		{"cpu", "0.0005", "round it"}, {"cpu", "1n", "round it"}, {"memory", "0.5B", "round it"}, {"memory", "100m", "write 100Mi"},
		{"memory", "512", "512Mi"}, {"memory", "1.", "B for bytes"}, {"disk", "1e3", "B for bytes"},
		{"cpu", "", "such as 2"}, {"cpu", "two", "such as 2"}, {"cpu", "1 2", "such as"}, {"memory", "4GB GB", "such as"},
		{"memory", "B", "such as"}, {"cpu", "0x10", "such as"}, {"cpu", "NaN", "such as"}, {"cpu", "1B", "such as"},
		{"cpu", strings.Repeat("9", 3000), ""}, {"slot", "5Mi", "size in bytes"},
	} {
		_, err := ParseQuantity(c.name, c.text)
		switch {
		case !Is(err, Invalid):
			t.Errorf("%s %q: got %v, want it refused", c.name, c.text, err)
		case !strings.Contains(err.Error(), c.remedy) || !strings.HasPrefix(err.Error(), c.name+": "):
			t.Errorf("%s %q: %v; want the field, and a remedy with %q", c.name, c.text, err, c.remedy)
		case len(err.Error()) > 300:
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		id   ResourceID
		q    Quantity
		want string
	}{
		{"cpu", 500, "0.5"}, {"cpu", 2000, "2"}, {"cpu", 1, "0.001"}, {"cpu", 0, "0"}, {"cpu", -1500, "-1.5"},
		{"memory", 4 << 30, "4Gi"}, {"memory", 1000, "1k"}, {"memory", 1025, "1025B"}, {"memory", 0, "0"}, {"memory", -1024, "-1Ki"},
		{"x", Inf, "inf"}, {"team:x", 250, "0.25"}, {"team:memory@train", 1 << 20, "1Mi"},
		{"cpu", 10000000, "10000"}, {"cpu", math.MinInt64, "-9223372036854775.808"},
	} {
		if got := c.q.Format(c.id); got != c.want {
			t.Errorf("%d of %s: got %q, want %q", c.q, c.id, got, c.want)
		}
	}
}

func TestAddAndMinus(t *testing.T) {
	for _, c := range []struct{ got, want Quantity }{
		{Quantity(2).Add(3), 5}, {Inf.Add(1), Inf}, {Quantity(1).Add(Inf), Inf}, {Quantity(5).Add(-7), -2},
		{(Inf - 1).Add(1), Inf - 1}, {(Inf - 1).Add(Inf - 1), Inf - 1}, {MaxQuantity.Add(MaxQuantity), 2 * MaxQuantity},
		{Quantity(2).Minus(5), -3}, {Inf.Minus(5), Inf}, {Inf.Minus(MaxQuantity), Inf},
	} {
		if c.got != c.want {
			t.Errorf("got %d, want %d", c.got, c.want)
		}
	}
}

// TestWritten: amounts written in a program are in whole units, and a wrong one ends it.
func TestWritten(t *testing.T) {
	if Whole(2) != MustQuantity("gpu", "2") || Whole(math.MaxInt) <= MaxQuantity || Whole(math.MinInt) >= 0 {
		t.Errorf("2 is %d, the most is %d, the least %d", Whole(2), Whole(math.MaxInt), Whole(math.MinInt))
	}
	want := Requests{{"cpu", 500}, {"memory", 1 << 20}, {"slot", Whole(1)}}
	if got := MustRequests(map[string]string{"slot": "1", "cpu": "500m", "memory": "1Mi"}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, f := range map[string]func(){
		"quantity": func() { MustQuantity("cpu", "much") }, "requests": func() { MustRequests(map[string]string{"memory": "5"}) },
	} {
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !errors.Is(err, Invalid) {
					t.Errorf("%s: %v", name, err)
				}
			}()
			f()
		}()
	}
}

// FuzzQuantity checks that accepted texts are within bounds, and that formatting is the inverse of
// parsing.
func FuzzQuantity(f *testing.F) {
	for _, text := range []string{"1", "0.5", "500m", "4Gi", "inf", "-1", "1e99", "9.9999E", "1n", "1000000000000000000B"} {
		f.Add("cpu", text)
		f.Add("memory", text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		q, err := ParseQuantity(name, text)
		if err != nil {
			if !Is(err, Invalid) {
				t.Fatalf("%q: %v is of class %s", text, err, ClassOf(err))
			}
			return
		}
		if q < 0 || q > MaxQuantity && q != Inf {
			t.Fatalf("%q is %d", text, q)
		}
		if again, err := ParseQuantity(name, q.Format(ResourceID(name))); err != nil || again != q {
			t.Fatalf("%q is %d, written as %q, and read back as %d, %v", text, q, q.Format(ResourceID(name)), again, err)
		}
	})
}
