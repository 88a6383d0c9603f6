package nodeapi

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/escher-sched/escher/nodeagent/output/tasklog"
)

// frames returns pieces as frames.
func frames(t testing.TB, s tasklog.Selection, pieces ...tasklog.Piece) []byte {
	t.Helper()
	var b bytes.Buffer
	f := &framer{to: bufio.NewWriter(&b), Selection: s}
	for _, p := range pieces {
		if err := f.add(p); err != nil {
			t.Fatal(err)
		}
	}
	f.omit()
	if err := f.to.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// FuzzFrames reads any bytes as an answer of a node: no piece is longer than it may be, and the
// position never goes back.
func FuzzFrames(f *testing.F) {
	at := time.Unix(1_700_000_000, 1)
	f.Add(frames(f, tasklog.Selection{Stream: tasklog.Stderr}, tasklog.Piece{Stream: tasklog.Stdout, At: at, Text: []byte("out")},
		tasklog.Piece{Stream: tasklog.Stderr, At: at, Text: []byte("err")}, tasklog.Piece{Text: []byte("old")}))
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, text []byte) {
		sent := int64(0)
		n, broken, failed := readFrames(bytes.NewReader(text), func(p tasklog.Piece) error {
			sent += int64(len(p.Text))
			if len(p.Text) > maxFrame {
				t.Errorf("a piece has %d bytes", len(p.Text))
			}
			return nil
		})
		if failed != nil || sent > n || sent > int64(len(text)) || broken == nil && len(text) > 0 && len(text) < frameHead {
			t.Errorf("%d bytes of %d came, %v, %v", sent, n, broken, failed)
		}
	})
}

// TestFramesThatBreakOff cuts an answer after each byte: the position counts whole pieces alone, and
// the answer is complete only at the end of a frame.
func TestFramesThatBreakOff(t *testing.T) {
	whole := frames(t, tasklog.Selection{Stream: tasklog.Stdout}, tasklog.Piece{Stream: tasklog.Stdout, Text: []byte("one")},
		tasklog.Piece{Stream: tasklog.Stderr, Text: []byte("left out")}, tasklog.Piece{Stream: tasklog.Stdout, Text: []byte("two")})
	ends := map[int]int64{0: 0, frameHead + 3: 3, 2*frameHead + 3: 11, 3*frameHead + 6: 14}
	for cut := range len(whole) + 1 {
		var got []byte
		n, broken, failed := readFrames(iotest.OneByteReader(bytes.NewReader(whole[:cut])), func(p tasklog.Piece) error {
			got = append(got, p.Text...)
			return nil
		})
		want, complete := ends[cut]
		if complete != (broken == nil) || complete && n != want || failed != nil || !bytes.HasPrefix([]byte("onetwo"), got) {
			t.Errorf("after %d bytes: %d of the log, %q, %v, %v", cut, n, got, broken, failed)
		}
		if !complete && !errors.Is(broken, io.ErrUnexpectedEOF) {
			t.Errorf("after %d bytes: %v", cut, broken)
		}
	}
}
