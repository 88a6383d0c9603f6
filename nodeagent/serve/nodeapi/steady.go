package nodeapi

import (
	"io"
	"net/http"
	"time"
)

// stallTimeout limits how long a client may take to receive or send the next piece of a file. The
// total time is not limited.
const stallTimeout = 2 * time.Minute

// steadily returns w with writes that fail if the client receives nothing for stallTimeout. end
// undoes this, because other answers use the connection afterwards.
func steadily(w http.ResponseWriter) (steady io.Writer, end func()) {
	conn := http.NewResponseController(w)
	// An error means a connection without deadlines, as in some tests.
	end = func() { _ = conn.SetWriteDeadline(time.Time{}) }
	return writerFunc(func(p []byte) (int, error) {
		_ = conn.SetWriteDeadline(time.Now().Add(stallTimeout))
		return w.Write(p)
	}), end
}

// steadyBody returns the body of r with reads that fail if the client sends nothing for
// stallTimeout. end undoes this.
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
