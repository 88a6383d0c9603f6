package runtimetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/types"
)

// Alternations is the number of lines that the verb alternate writes to each stream: "out 0" to
// standard output, "err 0" to standard error, and so on. Last comes "the end" on standard output,
// without a newline.
const Alternations = 20

func outputTests() []namedTest {
	return []namedTest{
		{"OutputHasStreams", testOutputHasStreams},
		{"OutputHasTimes", testOutputHasTimes},
		{"OutputIsPlain", testOutputIsPlain},
	}
}

// readAlternate runs alternate, and returns its log once it is complete.
func (s *suite) readAlternate() (c nodeagent.Container, pieces []tasklog.Piece) {
	s.Helper()
	c = s.start("alternate")
	if exit := s.wait(c.ID); exit.Code != 0 {
		s.Errorf("exit %+v", exit)
	}
	return c, Await(s.T, func(context.Context) ([]tasklog.Piece, error) {
		r := tasklog.NewReader(c.LogPath)
		defer r.Close()
		text, pieces := "", []tasklog.Piece(nil)
		err := r.EachNew(func(p tasklog.Piece) error {
			p.Text = []byte(string(p.Text))
			pieces, text = append(pieces, p), text+string(p.Text)
			return nil
		})
		if lastError := fmt.Sprintln("err", Alternations-1); err == nil && !(strings.Contains(text, "the end") && strings.Contains(text, lastError)) {
			err = types.Errorf(types.NotFound, "read the end of the log: it has %q", text)
		}
		return pieces, err
	})
}

func testOutputHasStreams(s *suite) {
	_, pieces := s.readAlternate()
	got, want := make(map[tasklog.Stream]string), make(map[tasklog.Stream]string)
	for i := range Alternations {
		want[tasklog.Stdout] += fmt.Sprintln("out", i)
		want[tasklog.Stderr] += fmt.Sprintln("err", i)
	}
	want[tasklog.Stdout] += "the end"
	for _, p := range pieces {
		got[p.Stream] += string(p.Text)
	}
	for stream := tasklog.Unknown; stream <= tasklog.Note; stream++ {
		if got[stream] != want[stream] {
			s.Errorf("stream %d has %q, want %q", stream, got[stream], want[stream])
		}
	}
}

func testOutputHasTimes(s *suite) {
	before := time.Now()
	_, pieces := s.readAlternate()
	after := time.Now()
	latest := make(map[tasklog.Stream]time.Time)
	for _, p := range pieces {
		if p.At.Before(before) || p.At.After(after) || p.At.Before(latest[p.Stream]) {
			s.Errorf("%q was written at %s, want after %s and %s, before %s", p.Text, p.At, before, latest[p.Stream], after)
		}
		latest[p.Stream] = p.At
	}
}

// testOutputIsPlain tests that a program that knows no marks reads the log.
func testOutputIsPlain(s *suite) {
	c, pieces := s.readAlternate()
	r := tasklog.NewReader(c.LogPath)
	defer r.Close()
	var plain, want strings.Builder
	s.must(r.CopyNew(&plain))
	for _, p := range pieces {
		want.Write(p.Text)
	}
	if plain.String() != want.String() {
		s.Errorf("the log is %q, want %q", plain.String(), want.String())
	}
}
