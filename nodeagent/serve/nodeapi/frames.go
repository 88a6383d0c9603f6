package nodeapi

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/escher-sched/escher/nodeagent/output/tasklog"
)

// Output with marks is a sequence of frames: a head, and the text. An answer of another type comes
// from an agent that knows no marks.
const (
	framesType = "application/vnd.escher.log"
	// frameHead is the number of bytes of a head: the stream, flags, two zeros, the length of the
	// text, and a Unix time in nanoseconds, 0 if unknown. Numbers are big-endian.
	frameHead = 16
	// frameOmitted is the flag of a frame without its text, which is not selected. Its length still
	// counts for the position.
	frameOmitted = 1
	// maxFrame is the maximum length of a text that is sent.
	maxFrame = 1 << 20
)

// errOver ends an answer at the end of the selection.
var errOver = errors.New("the rest is not selected")

// framer writes frames.
type framer struct {
	to *bufio.Writer
	tasklog.Selection
	// omitted is the number of bytes left out since the last frame.
	omitted int
}

// framed returns a function that sends new selected output in frames. errOver: none follows.
func framed(w http.ResponseWriter, reader *tasklog.Reader, s tasklog.Selection) func() error {
	f := &framer{to: bufio.NewWriterSize(w, 64<<10), Selection: s}
	control := http.NewResponseController(w)
	return func() error {
		err := reader.EachNew(f.add)
		if err != nil && err != errOver {
			return err
		}
		f.omit()
		if f.to.Buffered() == 0 {
			return err
		}
		if err := errors.Join(f.to.Flush(), control.Flush()); err != nil {
			return err
		}
		return err
	}
}

// add writes a piece, or counts it as left out.
func (f *framer) add(p tasklog.Piece) error {
	switch {
	case f.Over(p):
		return errOver
	case !f.Has(p):
		f.omitted += len(p.Text)
		return nil
	}
	f.omit()
	f.head(p.Stream, 0, len(p.Text), p.At)
	_, err := f.to.Write(p.Text)
	return err
}

// omit writes the frame of what was left out. A bufio.Writer keeps its first error.
func (f *framer) omit() {
	if f.omitted > 0 {
		f.head(tasklog.Unknown, frameOmitted, f.omitted, time.Time{})
		f.omitted = 0
	}
}

func (f *framer) head(s tasklog.Stream, flags byte, length int, at time.Time) {
	var head [frameHead]byte
	head[0], head[1] = byte(s), flags
	binary.BigEndian.PutUint32(head[4:], uint32(length))
	if !at.IsZero() {
		binary.BigEndian.PutUint64(head[8:], uint64(at.UnixNano()))
	}
	_, _ = f.to.Write(head[:]) // the next Write or Flush returns the error
}

// readFrames calls each with the pieces of an answer. It returns the number of bytes of the log that
// came, and apart from each other the error of the answer and that of each.
func readFrames(r io.Reader, each func(tasklog.Piece) error) (n int64, broken, failed error) {
	in := bufio.NewReaderSize(r, 64<<10)
	head, text := make([]byte, frameHead), make([]byte, 0, 64<<10)
	for {
		switch _, err := io.ReadFull(in, head); {
		case err == io.EOF:
			return n, nil, nil
		case err != nil:
			return n, err, nil
		}
		p := tasklog.Piece{Stream: tasklog.Stream(head[0])}
		if at := int64(binary.BigEndian.Uint64(head[8:])); at != 0 {
			p.At = time.Unix(0, at)
		}
		length := int64(binary.BigEndian.Uint32(head[4:]))
		if head[1]&frameOmitted != 0 {
			n += length
			continue
		}
		if length > maxFrame {
			return n, errors.New("a piece of the log is longer than any may be"), nil
		}
		text = append(text[:0], make([]byte, length)...)
		switch _, err := io.ReadFull(in, text); {
		case err == io.EOF:
			return n, io.ErrUnexpectedEOF, nil
		case err != nil:
			return n, err, nil
		}
		p.Text = text
		if err := each(p); err != nil {
			return n, nil, err
		}
		n += length
	}
}

// readPlain is readFrames for the answer of an agent that knows no marks.
func readPlain(r io.Reader, each func(tasklog.Piece) error) (n int64, broken, failed error) {
	text := make([]byte, 64<<10)
	for {
		got, err := r.Read(text)
		if got > 0 {
			if failed := each(tasklog.Piece{Text: text[:got]}); failed != nil {
				return n, nil, failed
			}
			n += int64(got)
		}
		switch {
		case err == io.EOF:
			return n, nil, nil
		case err != nil:
			return n, err, nil
		}
	}
}
