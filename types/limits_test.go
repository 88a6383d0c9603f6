package types

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCutReason(t *testing.T) {
	long := "pull image: " + strings.Repeat("x", 2*MaxReason) + ": not found"
	for _, c := range []struct{ name, reason, begin, end string }{
		{"short", "exit 1", "exit 1", "exit 1"},
		{"as long as may be", strings.Repeat("x", MaxReason), "x", "x"},
		{"long", long, "pull image: xxx", "xxx: not found"},
		{"runes", strings.Repeat("日本", MaxReason), "日本", "日本"},
		{"runes at another place", "a" + strings.Repeat("日本", MaxReason) + "b", "a日本", "本b"},
		{"not UTF-8", "a\xff\xfeb\x00", "a\ufffd", "b\ufffd"},
	} {
		got := CutReason(c.reason)
		if len(got) > MaxReason || !utf8.ValidString(got) || !strings.HasPrefix(got, c.begin) || !strings.HasSuffix(got, c.end) {
			t.Errorf("%s: %d bytes, %q", c.name, len(got), got)
		}
		if len(c.reason) <= MaxReason && utf8.ValidString(c.reason) && !strings.Contains(c.reason, "\x00") && got != c.reason {
			t.Errorf("%s: changed to %q", c.name, got)
		}
		if again := CutReason(got); again != got {
			t.Errorf("%s: cut twice, it differs", c.name)
		}
	}
}

func TestMinusAtTheBound(t *testing.T) {
	for _, c := range []struct{ got, want Quantity }{
		{Inf.Minus(MaxAllocated - MaxQuantity), Inf},
		{Inf.Minus(MaxAllocated - MaxQuantity + 1), MaxQuantity - 1},
		{Inf.Minus(MaxAllocated), 0},
		{Inf.Minus(MaxAllocated + 1), -1},
		{(Inf - 1).Minus(MaxAllocated), 0},
		{MaxQuantity.Minus(MaxQuantity + 1), -1},
	} {
		if c.got != c.want {
			t.Errorf("got %d, want %d", c.got, c.want)
		}
	}
}
