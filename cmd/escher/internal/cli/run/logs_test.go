package run

import (
	"container/heap"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
)

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "0s": now, "5m": now.Add(-5 * time.Minute), "1h30m": now.Add(-90 * time.Minute),
		"2026-01-31T11:00:00Z": now.Add(-time.Hour), "2026-01-31T12:00:00+01:00": now.Add(-time.Hour), "2026-01-31T11:59:59.999999999Z": now.Add(-time.Nanosecond),
		"2026-01-30": time.Date(2026, 1, 30, 0, 0, 0, 0, time.Local), "2026-01-30 11:30": time.Date(2026, 1, 30, 11, 30, 0, 0, time.Local),
	} {
		if got, err := parseTime("since", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"5", "-5m", "yesterday", "2026-13-01", "5 m", "12:00"} {
		if _, err := parseTime("since", text, now); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), fmt.Sprintf("since: %q is not a time", text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestFeedsInOrder merges lines of three tasks. Lines without a time come with the one before them,
// and lines of the same time in the order of the tasks.
func TestFeedsInOrder(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	var all feeds
	for i, lines := range [][]cmdutil.Line{
		{{At: at(1), Text: []byte("a1")}, {Text: []byte("a?")}, {At: at(4), Text: []byte("a4")}},
		{{Text: []byte("b?")}, {At: at(2), Text: []byte("b2")}, {At: at(4), Text: []byte("b4")}},
		{{At: at(3), Text: []byte("c3")}, {At: at(2), Text: []byte("c2")}},
	} {
		d := &feed{order: i, items: make(chan item, len(lines))}
		for _, l := range lines {
			d.items <- item{line: l}
		}
		close(d.items)
		d.advance()
		all = append(all, d)
	}
	var got []string
	for heap.Init(&all); len(all) > 0; {
		d := all[0]
		got = append(got, string(d.next.line.Text))
		if d.advance() {
			heap.Fix(&all, 0)
		} else {
			heap.Pop(&all)
		}
	}
	if text := strings.Join(got, " "); text != "b? a1 a? b2 c3 c2 a4 b4" {
		t.Error(text)
	}
}

func TestMissingIsNamed(t *testing.T) {
	var l lost
	if err := l.missing("job"); err != nil {
		t.Error(err)
	}
	for i := range maxListed + 1 {
		l.add(fmt.Sprint("t", i), types.Errorf(types.Unavailable, "ask node n"))
	}
	if err := l.missing("job"); !types.Is(err, types.Unavailable) || err.Error() != "show what job wrote: output of 6 tasks is missing: t0, t1, t2, t3, t4, …" {
		t.Error(err)
	}
}
