package tasksocket

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"sigs.k8s.io/json"

	"github.com/escher-sched/escher/types"
)

// text reads a body of at most length bytes, and returns its weight once decoded. done releases the
// memory of the text.
func (s *Server) text(w http.ResponseWriter, r *http.Request, length int64) (text []byte, weight int64, done func(), err error) {
	release, err := s.useText(r.Context(), length)
	if err != nil {
		return nil, 0, nil, err
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // every connection of the socket has one
	in := &scanner{in: http.MaxBytesReader(ofConnection(w), r.Body, MaxBody)}
	if text, err = io.ReadAll(in); err != nil {
		release()
		return nil, 0, nil, unread(err)
	}
	_ = conn.SetReadDeadline(time.Time{}) // the request may take longer, as a wait does
	return text, in.weight(int64(len(text))), release, nil
}

// ofConnection returns the answer of the connection: net/http closes it in order after a body that is too large,
// so that the sender can read why.
func ofConnection(w http.ResponseWriter) http.ResponseWriter {
	for {
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = inner.Unwrap()
	}
}

// unread returns the error for a body that could not be read.
func unread(err error) error {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return types.Errorf(types.Invalid, "body: is larger than %d bytes: send less at once", large.Limit)
	}
	if _, ok := errors.AsType[*types.Error](err); ok {
		return err
	}
	return types.Errorf(types.Unavailable, "read body: %w", err)
}

// Decode decodes the body of a request, within the bounds of one. described is what describes it. Invalid:
// it exceeds a bound, or a field is unknown, twice there, or of another type.
func Decode[T any](text []byte, described string) (out T, err error) {
	if _, err = io.Copy(io.Discard, &scanner{in: bytes.NewReader(text)}); err == nil {
		err = decode(text, &out, described)
	}
	return out, err
}

// decode decodes a JSON object. It refuses unknown fields, fields in another case, and a field that is
// there twice.
func decode(text []byte, into any, described string) error {
	wrong, err := json.UnmarshalStrict(text, into)
	if err == nil && len(wrong) > 0 {
		err = wrong[0]
	}
	if err != nil {
		return types.Errorf(types.Invalid, "body: %w: correct it, as %s has it", err, described)
	}
	return nil
}

// scanner counts the values of a JSON text while it is read. It fails with Invalid if there are
// more than a request may have. The length of the text is no limit, because a few bytes of text can
// become kilobytes of memory. It leaves the validation to the decoder.
type scanner struct {
	in io.Reader
	// values counts names and values, elements counts objects and lists in lists.
	values, elements int
	// open are the enclosing objects, '{', and lists, '['.
	open [maxDepth]byte
	// depth is their number.
	depth int
	// quoted, escaped and plain report whether the scanner is in a string, after its \, or in a
	// number or word.
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

// weight returns a rough upper bound of the memory for a decoded text of that length.
func (s *scanner) weight(length int64) int64 {
	return min(length+int64(s.elements)*elementWeight+int64(s.values)*valueWeight, namespaceDecoded)
}
