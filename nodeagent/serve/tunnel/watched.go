package tunnel

import (
	"encoding/binary"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/escher-sched/escher/types"
)

// watched is a connection that closes itself when no data arrives for long, or the other side takes none.
type watched struct {
	io.ReadWriteCloser
	// silent and stuck fire when reads and a write have lasted too long.
	silent, stuck *time.Timer
	once          sync.Once
	ended         func()
	// vet, unless nil, checks what arrives.
	vet *vetting
}

// watch watches a connection, and calls ended once it is closed.
func watch(conn io.ReadWriteCloser, ended func()) *watched {
	w := &watched{ReadWriteCloser: conn, ended: ended}
	abandon := func() { _ = w.Close() } // the readers and writers get the error
	w.silent, w.stuck = time.AfterFunc(silence, abandon), time.AfterFunc(silence, abandon)
	w.stuck.Stop()
	return w
}

// Read reads data.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadWriteCloser.Read(p)
	w.silent.Reset(silence)
	if w.vet != nil && err == nil {
		err = w.vet.data(p[:n])
	}
	return n, err
}

// Write writes data.
func (w *watched) Write(p []byte) (int, error) {
	w.stuck.Reset(silence)
	defer w.stuck.Stop()
	return w.ReadWriteCloser.Write(p)
}

// Close closes the connection.
func (w *watched) Close() (err error) {
	w.once.Do(func() {
		w.silent.Stop()
		err = w.ReadWriteCloser.Close()
		if w.ended != nil {
			w.ended()
		}
	})
	return err
}

// The frames of yamux, as far as a server checks them: https://github.com/hashicorp/yamux/blob/master/spec.md.
const (
	headerSize = 12
	frameData  = 0
	framePing  = 2
	flagSYN    = 1
)

// vetting checks the frames of an agent: it opens no streams, and each of its pings takes a goroutine of the
// server.
type vetting struct {
	pings *rate.Limiter
	// head has the first bytes of a header that are there, and body is how much of a frame is missing.
	head [headerSize]byte
	have int
	body uint32
}

func newVetting() *vetting { return &vetting{pings: rate.NewLimiter(pingRate, pingBurst)} }

// data returns an error for frames that an agent must not send.
func (v *vetting) data(p []byte) error {
	for len(p) > 0 {
		if v.body > 0 {
			n := min(len(p), int(v.body))
			v.body -= uint32(n)
			p = p[n:]
			continue
		}
		n := copy(v.head[v.have:], p)
		v.have += n
		p = p[n:]
		if v.have < headerSize {
			return nil
		}
		v.have = 0
		kind, flags := v.head[1], binary.BigEndian.Uint16(v.head[2:])
		switch {
		case kind == framePing && flags&flagSYN != 0 && !v.pings.Allow():
			return types.Errorf(types.Denied, "the agent sends more than %d pings a second", pingRate)
		case kind != framePing && flags&flagSYN != 0:
			return types.Errorf(types.Denied, "the agent opens a stream, which only servers do")
		case kind == frameData:
			v.body = binary.BigEndian.Uint32(v.head[8:])
		}
	}
	return nil
}
