package types

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCutReason(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{"", ""},
		{"exit code 1", "exit code 1"},
		{strings.Repeat("a", MaxReason), strings.Repeat("a", MaxReason)},
		{strings.Repeat("a", MaxReason+1), strings.Repeat("a", MaxReason-3) + "…"},
		{strings.Repeat("é", MaxReason), strings.Repeat("é", (MaxReason-3)/2) + "…"},
		{"a\xffb", "ab"},
		{strings.Repeat("\xff", 1<<20), "…"},
	} {
		got := CutReason(x.text)
		if got != x.want || !utf8.ValidString(got) || len(got) > MaxReason || CutReason(got) != got {
			t.Errorf("%.20q of %d bytes: got %.20q of %d bytes, want %d", x.text, len(x.text), got, len(got), len(x.want))
		}
	}
}

// TestReasonsAreBounded encodes each message with a reason larger than a transaction, and decodes
// one that another program wrote without a bound.
func TestReasonsAreBounded(t *testing.T) {
	long := strings.Repeat("r", 3<<19)
	later := Later{EvictReason: long}
	for name, x := range map[string]struct {
		m      Message
		reason func(m Message) *string
	}{
		"report":    {&Report{Phase: ReportExited, Reason: long}, func(m Message) *string { return &m.(*Report).Reason }},
		"status":    {&Status{Phase: Failed, Reason: long}, func(m Message) *string { return &m.(*Status).Reason }},
		"admission": {&Admission{Reason: long}, func(m Message) *string { return &m.(*Admission).Reason }},
		"cordon":    {&Cordon{Reason: long}, func(m Message) *string { return &m.(*Cordon).Reason }},
		"stop":      {&Binding{Stop: &Stop{Reason: long}}, func(m Message) *string { return &m.(*Binding).Stop.Reason }},
		"eviction":  {&Task{Later: &later}, func(m Message) *string { return &m.(*Task).Later.EvictReason }},
	} {
		value := Encode(1, x.m)
		if len(value) > 2*MaxReason {
			t.Errorf("%s: %d bytes are written", name, len(value))
		}
		at := strings.Index(string(value), strings.Repeat("r", 100))
		if err := Decode(value, x.m); err != nil || at < 0 || *x.reason(x.m) != CutReason(long) {
			t.Errorf("%s: %v, a reason of %d bytes", name, err, len(*x.reason(x.m)))
		}
	}
	status := Status{}
	foreign := append(Encode(1, &Status{Phase: Failed}), 9<<3|2, 0x80, 0x10) // field 9 has 2,048 bytes
	if err := Decode(append(foreign, long[:2048]...), &status); err != nil || status.Reason != CutReason(long) {
		t.Errorf("written without a bound: %v, a reason of %d bytes", err, len(status.Reason))
	}
}
