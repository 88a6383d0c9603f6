package nodeapi

import (
	"io"
	"net/http"
	"time"
)

// stallTimeout bounds how long a client may take to take in, or to send, the next piece of a
// file. The whole takes as long as it takes.
const stallTimeout = 2 * time.Minute

// steadily returns w, whose writes fail when the client takes nothing in for stallTimeout; end
// undoes that. The connection goes on to be used for other answers.
func steadily(w http.ResponseWriter) (steady io.Writer, end func()) {
	conn := http.NewResponseController(w)
	// An error says that the connection has no deadlines, as in tests without one.
	end = func() { _ = conn.SetWriteDeadline(time.Time{}) }
	return writerFunc(func(p []byte) (int, error) {
		_ = conn.SetWriteDeadline(time.Now().Add(stallTimeout))
		return w.Write(p)
	}), end
}

// steadyBody returns the body of r, whose reads fail when the client sends nothing for
// stallTimeout; end undoes that.
func steadyBody(w http.ResponseWriter, r *http.Request) (body io.Reader, end func()) {
	conn := http.NewResponseController(w)
	end = func() { _ = conn.SetReadDeadline(time.Time{}) }
	return readerFunc(func(p []byte) (int, error) {
		_ = conn.SetReadDeadline(time.Now().Add(stallTimeout))
		return r.Body.Read(p)
	}), end
}

type (
	writerFunc func([]byte) (int, error)
	readerFunc func([]byte) (int, error)
)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
func (f readerFunc) Read(p []byte) (int, error)  { return f(p) }
