package tunnel

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/escher-sched/escher/types"
)

// bubble runs a test in virtual time. Timers of yamux are in a pool, which two bubbles must not share: two
// garbage collections empty it.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	synctest.Test(t, test)
}

// server is where an agent connects to.
type server struct {
	mu sync.Mutex
	// refuses is the error of connections; nil means that they succeed.
	refuses  error
	asked    int
	sessions []*Session
	ended    int
	// wires are the connections as agents have them.
	wires []*wire
	// most bounds the streams; 0 means as usual.
	most int
	// holds reports whether the agent keeps streams open that the server closes.
	holds bool
	// renewed reports whether the agent has a newer certificate than it has shown.
	renewed atomic.Bool
}

// wire is a connection that can lose all that is sent.
type wire struct {
	net.Conn
	cut chan struct{}
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	select {
	case <-w.cut:
		if err == nil {
			return w.Read(p) // it never arrives
		}
	default:
	}
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	select {
	case <-w.cut:
		return len(p), nil
	default:
		return w.Conn.Write(p)
	}
}

func (s *server) connect(context.Context) (io.ReadWriteCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed.Store(false)
	if s.asked++; s.refuses != nil {
		return nil, s.refuses
	}
	here, there := net.Pipe()
	session, err := NewSession(there, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended++
	})
	if err != nil {
		return nil, err
	}
	w := &wire{here, make(chan struct{})}
	s.sessions, s.wires = append(s.sessions, session), append(s.wires, w)
	return w, nil
}

// last returns the newest session; nil before the first.
func (s *server) last() *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) == 0 {
		return nil
	}
	return s.sessions[len(s.sessions)-1]
}

func (s *server) counts() (asked, sessions, ended int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, len(s.sessions), s.ended
}

// run runs an agent until the end of the test. It echoes what streams send if echoes is true, and takes no
// streams otherwise.
func run(t *testing.T, s *server, echoes bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := New(s.connect, nil)
	if s.most > 0 {
		a.slots = make(chan struct{}, s.most)
	}
	a.Renewed = s.renewed.Load
	l := a.Listen()
	var group sync.WaitGroup
	group.Go(func() {
		if err := a.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the agent ended: %v", err)
		}
	})
	if echoes {
		group.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				group.Go(func() {
					defer conn.Close()
					_, _ = io.Copy(conn, conn)
					if s.holds {
						<-ctx.Done()
					}
				})
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		l.Close()
		group.Wait()
	})
	synctest.Wait()
}

// echo sends data through a new stream, and returns what comes back.
func echo(t *testing.T, s *Session, data []byte) ([]byte, error) {
	t.Helper()
	conn, err := s.Open(t.Context())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(data)
		sent <- err
	}()
	got := make([]byte, len(data))
	_, err = io.ReadFull(conn, got)
	return got, errors.Join(err, <-sent)
}

// TestStreams sends more than a window through many streams at once.
func TestStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := new(server)
		run(t, s, true)
		var group sync.WaitGroup
		for i := range 50 {
			group.Go(func() {
				data := bytes.Repeat([]byte{byte(i)}, 1<<20)
				if got, err := echo(t, s.last(), data); err != nil || !bytes.Equal(got, data) {
					t.Errorf("stream %d: %d bytes, %v", i, len(got), err)
				}
			})
		}
		group.Wait()
	})
}

// TestDead: both sides notice within 30 seconds that nothing arrives any more, and the agent connects again.
// An idle connection lasts.
func TestDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := new(server)
		run(t, s, true)
		time.Sleep(time.Hour)
		if asked, _, ended := s.counts(); asked != 1 || ended != 0 {
			t.Fatalf("idle for an hour: %d connections, %d have ended", asked, ended)
		}
		conn, err := s.last().Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		close(s.wires[0].cut)
		began := time.Now()
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a stream of a dead tunnel reads")
		}
		if lasted := time.Since(began); lasted > silence {
			t.Errorf("the server notices after %s", lasted)
		}
		time.Sleep(silence + time.Second - time.Since(began))
		if _, sessions, ended := s.counts(); sessions != 2 || ended != 1 {
			t.Errorf("%d tunnels, %d have ended", sessions, ended)
		}
		if got, err := echo(t, s.last(), []byte("again")); string(got) != "again" || err != nil {
			t.Errorf("by the next one: %q, %v", got, err)
		}
	})
}

// TestStuck: a server ends a tunnel to an agent that takes no data.
func TestStuck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		here, there := net.Pipe()
		ended := make(chan struct{})
		s, err := NewSession(there, func() { close(ended) })
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		defer group.Wait()
		group.Go(func() { // it keeps the other direction alive
			for pong := []byte{0, framePing, 0, 2, 11: 0}; ; time.Sleep(heartbeat) {
				if _, err := here.Write(pong); err != nil {
					return
				}
			}
		})
		began := time.Now()
		if _, err := s.Open(t.Context()); !types.Is(err, types.Unavailable) {
			t.Errorf("a stream opens: %v", err)
		}
		<-ended
		if lasted := time.Since(began); lasted != silence {
			t.Errorf("it ends after %s", lasted)
		}
	})
}

// TestNoListener: an agent that is not ready for a stream refuses it in time, and the tunnel lasts.
func TestNoListener(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := new(server)
		run(t, s, false)
		began := time.Now()
		_, err := s.last().Open(t.Context())
		if lasted := time.Since(began); !types.Is(err, types.Unavailable) || lasted != greeted {
			t.Errorf("%v, after %s", err, lasted)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.last().Open(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != greeted+time.Second {
			t.Errorf("%v, after %s", err, time.Since(began))
		}
		if _, _, ended := s.counts(); ended != 0 {
			t.Error("the tunnel has ended")
		}
	})
}

// TestFlood: an agent serves so many streams at a time, even if a server asks for more.
func TestFlood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 100
		s := &server{most: most}
		run(t, s, true)
		s.last().most = most
		conns := make([]net.Conn, most)
		for i := range conns {
			var err error
			if conns[i], err = s.last().Open(t.Context()); err != nil {
				t.Fatal(i, err)
			}
		}
		if _, err := s.last().Open(t.Context()); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "100 connections already") {
			t.Errorf("one more: %v", err)
		}
		if _, err := s.last().open(); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "takes no more") {
			t.Errorf("the agent takes one more: %v", err)
		}
		if err := conns[0].Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got, err := echo(t, s.last(), []byte("next")); string(got) != "next" || err != nil {
			t.Errorf("after the end of one: %q, %v", got, err)
		}
	})
}

// TestReconnects: an agent connects again after growing pauses, and the listener goes on.
func TestReconnects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := new(server)
		run(t, s, true)
		time.Sleep(time.Hour)
		s.mu.Lock()
		s.refuses = types.Errorf(types.Unavailable, "no server")
		s.mu.Unlock()
		s.last().Close()
		time.Sleep(time.Hour)
		if asked, _, _ := s.counts(); asked < 100 || asked > 500 {
			t.Errorf("it asks %d times in an hour", asked)
		}
		s.mu.Lock()
		s.refuses = nil
		s.mu.Unlock()
		time.Sleep(time.Minute)
		if got, err := echo(t, s.last(), []byte("back")); string(got) != "back" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestRenewed: an agent shows a renewed certificate as soon as no stream is open.
func TestRenewed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := new(server)
		run(t, s, true)
		conn, err := s.last().Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.renewed.Store(true)
		time.Sleep(time.Hour)
		if asked, _, _ := s.counts(); asked != 1 {
			t.Error("it ends a stream")
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(heartbeat)
		synctest.Wait()
		if asked, sessions, ended := s.counts(); asked != 2 || sessions != 2 || ended != 1 {
			t.Errorf("it has connected %d times", asked)
		}
		if got, err := echo(t, s.last(), []byte("next")); string(got) != "next" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestClosed: the end of a stream or a tunnel ends what waits there, as with other connections, whatever the
// agent does.
func TestClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{holds: true}
		run(t, s, true)
		for name, end := range map[string]func(net.Conn){
			"the stream": func(c net.Conn) { c.Close() },
			"the tunnel": func(net.Conn) { s.last().Close() },
		} {
			conn, err := s.last().Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			read := make(chan error, 1)
			go func() {
				_, err := conn.Read(make([]byte, 1))
				read <- err
			}()
			synctest.Wait()
			end(conn)
			began := time.Now()
			if err := <-read; err == nil || time.Since(began) > 0 {
				t.Errorf("%s: a read ends with %v, after %s", name, err, time.Since(began))
			}
			if _, err := conn.Write([]byte("x")); err == nil {
				t.Errorf("%s: it can be written", name)
			}
			if err := conn.SetDeadline(time.Time{}); name == "the stream" && !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: a deadline: %v", name, err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute) // the agent connects again
		}
	})
}

// TestDeadlines: reads and writes end at their deadlines, and the stream goes on.
func TestDeadlines(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := new(server)
		run(t, s, true)
		conn, err := s.last().Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		late, ok := errors.AsType[net.Error](func() error { _, err := conn.Read(make([]byte, 1)); return err }())
		if !ok || !late.Timeout() {
			t.Errorf("a read without data: %v", late)
		}
		if err := conn.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Error(err)
		}
	})
}

// TestVetting ends the tunnel of an agent that sends what only servers send, or floods its server.
func TestVetting(t *testing.T) {
	frame := func(kind, flags byte, length byte) []byte {
		return []byte{0, kind, 0, flags, 0, 0, 0, 2, 0, 0, 0, length}
	}
	ping := frame(framePing, flagSYN, 0)
	for name, c := range map[string]struct {
		sent []byte
		says string
	}{
		"pings":                   {bytes.Repeat(ping, pingBurst), ""},
		"a flood of pings":        {bytes.Repeat(ping, pingBurst+1), "more than 1 pings"},
		"a stream":                {frame(1, flagSYN, 0), "opens a stream"},
		"a stream, by data":       {frame(frameData, flagSYN, 0), "opens a stream"},
		"data like a stream":      {append(frame(frameData, 0, 12), frame(1, flagSYN, 0)...), ""},
		"data, and then a ping":   {append(append(frame(frameData, 0, 3), "abc"...), ping...), ""},
		"a stream after the data": {append(append(frame(frameData, 0, 3), "abc"...), frame(1, flagSYN, 0)...), "opens a stream"},
		"answers to pings":        {bytes.Repeat(frame(framePing, 2, 0), 100), ""},
	} {
		for _, step := range []int{1, 5, 1000} {
			bubble(t, func(t *testing.T) {
				v, err := newVetting(), error(nil)
				for at := 0; at < len(c.sent) && err == nil; at += step {
					err = v.data(c.sent[at:min(len(c.sent), at+step)])
				}
				if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s, by %d bytes: %v", name, step, err)
				}
			})
		}
	}
	bubble(t, func(t *testing.T) {
		here, there := net.Pipe()
		ended := make(chan struct{})
		began := time.Now()
		if _, err := NewSession(there, func() { close(ended) }); err != nil {
			t.Fatal(err)
		}
		mux, err := yamux.Server(here, settings())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = mux.Close() }()
		_, _ = mux.OpenStream() // the tunnel may have ended before it returns
		<-ended
		if lasted := time.Since(began); lasted > 0 {
			t.Errorf("it ends after %s", lasted)
		}
	})
}
