package tasksocket

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/escher-sched/escher/types"
)

// read reads a body into a T, within the bounds of the agent; release gives back what it
// uses of them. What is not known is refused: a typing error must not be taken for
// something left out.
func read[T any](s *Server, w http.ResponseWriter, r *http.Request) (body *T, release func(), err error) {
	body, release = new(T), func() {}
	if r.ContentLength == 0 {
		return body, release, nil
	}
	length := r.ContentLength
	if length < 0 || length > maxBody {
		length = maxBody // It does not say, or says more than is read of it.
	}
	text, weight, done, err := s.text(w, r, length)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	if len(bytes.TrimSpace(text)) == 0 {
		return body, release, nil
	}
	if release, err = s.useDecoded(r.Context(), weight); err != nil {
		return nil, nil, err
	}
	if err := decode(text, body); err != nil {
		release()
		return nil, nil, err
	}
	return body, release, nil
}

// text reads a body of at most length bytes, and returns what it weighs once it is
// decoded. done gives back what the text uses.
func (s *Server) text(w http.ResponseWriter, r *http.Request, length int64) (text []byte, weight int64, done func(), err error) {
	release, err := s.useText(r.Context(), length)
	if err != nil {
		return nil, 0, nil, err
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // every connection of the socket has one
	in := &scanner{in: http.MaxBytesReader(w, r.Body, maxBody)}
	if text, err = io.ReadAll(in); err != nil {
		release()
		return nil, 0, nil, unread(err)
	}
	_ = conn.SetReadDeadline(time.Time{}) // the request may take longer, as a wait does
	return text, in.weight(int64(len(text))), release, nil
}

// unread is the error of a body that could not be read.
func unread(err error) error {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return types.Errorf(types.Invalid, "body: is larger than %d bytes: send less at once", large.Limit)
	}
	if _, ok := errors.AsType[*types.Error](err); ok {
		return err
	}
	return types.Errorf(types.Unavailable, "read body: %w", err)
}

func decode(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return types.Errorf(types.Invalid, "body: %w: correct it, as docs/task-api.md has it", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return types.Errorf(types.Invalid, "body: something follows the JSON object: send one at a time")
	}
	return nil
}

// scanner counts what a JSON text holds while it is read, and ends it with Invalid once it
// holds more than a request may. A few bytes of text can become kilobytes of memory, so the
// length of the text is no bound. It does not check the text: the decoder does.
type scanner struct {
	in io.Reader
	// values are the names and values so far, elements the objects and lists in lists.
	values, elements int
	// open are the objects, '{', and lists, '[', the text is in.
	open [maxDepth]byte
	// depth is their number.
	depth int
	// quoted, escaped and plain tell whether it is in a text, behind its \, or in a number
	// or word.
	quoted, escaped, plain bool
}

// Read reads and counts.
func (s *scanner) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	for _, c := range p[:n] {
		if wrong := s.next(c); wrong != nil {
			return 0, wrong
		}
	}
	return n, err
}

// next counts one byte.
func (s *scanner) next(c byte) error {
	if s.quoted {
		s.quoted = s.escaped || c != '"'
		s.escaped = !s.escaped && c == '\\'
		return nil
	}
	began := false
	switch c {
	case ' ', '\t', '\r', '\n', ',', ':':
		s.plain = false
	case '"':
		s.quoted, s.plain, began = true, false, true
	case '{', '[':
		s.plain, began = false, true
		if s.depth == maxDepth {
			return types.Errorf(types.Invalid, "body: is nested deeper than %d: no request is", maxDepth)
		}
		if s.depth > 0 && s.open[s.depth-1] == '[' {
			s.elements++
		}
		s.open[s.depth] = c
		s.depth++
	case '}', ']':
		s.plain = false
		s.depth = max(s.depth-1, 0)
	default:
		began = !s.plain
		s.plain = true
	}
	if began {
		s.values++
	}
	switch {
	case s.elements > maxElements:
		return types.Errorf(types.Invalid, "body: has more than %d elements in its lists: send less at once", maxElements)
	case s.values > maxValues:
		return types.Errorf(types.Invalid, "body: has more than %d names and values: send less at once", maxValues)
	}
	return nil
}

// weight is the memory that a text of that length becomes, roughly and at most.
func (s *scanner) weight(length int64) int64 {
	return min(length+int64(s.elements)*elementWeight+int64(s.values)*valueWeight, namespaceDecoded)
}
