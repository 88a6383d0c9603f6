package nodeapi_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// listen serves connections at a port of this machine, each with serve, and returns the port.
func listen(t *testing.T, serve func(*net.TCPConn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// both is the local side of a connection.
type both struct {
	io.Reader
	io.Writer
}

// TestForwardStreams sends many times the credit, ends its side, and gets all of it back.
func TestForwardStreams(t *testing.T) {
	w := newWorld(t)
	port := listen(t, func(conn *net.TCPConn) {
		data, _ := io.ReadAll(conn) // to the end of what the client sends
		_, _ = conn.Write(data)
	})
	in := bytes.Repeat([]byte("0123456789abcde\n"), 200_000)
	var out bytes.Buffer
	if err := w.Forward(t.Context(), "x", "t", 3, port, both{bytes.NewReader(in), &out}); err != nil || !bytes.Equal(out.Bytes(), in) {
		t.Errorf("%v: %d of %d bytes", err, out.Len(), len(in))
	}
}

// TestForwardEndsWithItsClient disconnects a client whose input is full and unread: the other side
// notices.
func TestForwardEndsWithItsClient(t *testing.T) {
	w := newWorld(t)
	ended := make(chan struct{})
	ctx, gone := context.WithCancel(t.Context())
	port := listen(t, func(conn *net.TCPConn) {
		defer close(ended)
		_, _ = conn.Read(make([]byte, 1))
		gone()
		_, _ = io.Copy(io.Discard, conn)
	})
	if err := w.Forward(ctx, "x", "t", 1, port, both{endless{}, io.Discard}); !types.Is(err, types.Unavailable) {
		t.Errorf("%v", err)
	}
	<-ended
}

func TestForwardSaysWhyNot(t *testing.T) {
	w := newWorld(t)
	nobody := listen(t, func(*net.TCPConn) {})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	in := both{strings.NewReader(""), io.Discard}
	if err := w.Forward(t.Context(), "x", "t", 1, free, in); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "does the task listen there") {
		t.Errorf("nobody listens: %v", err)
	}
	for _, port := range []int{0, -1, types.MaxPort + 1} {
		if err := w.Forward(t.Context(), "x", "t", 1, port, in); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "is not a port") {
			t.Errorf("port %d: %v", port, err)
		}
	}
	w.agent.set(func() { w.agent.bound = false })
	if err := w.Forward(t.Context(), "x", "t", 1, nobody, in); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("%v", err)
	}
}

func TestSignal(t *testing.T) {
	w := newWorld(t)
	var calls atomic.Int64
	w.runtime.Runtime = simruntime.New(simruntime.Config{Fault: func(op simruntime.Op, _ string) simruntime.Fault {
		if op == simruntime.Signal {
			calls.Add(1)
		}
		return simruntime.NoFault
	}})
	if _, err := w.runtime.Start(t.Context(), nodeagent.Container{ID: "container-3"}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"SIGUSR1", "usr1", "10"} {
		if err := w.Signal(t.Context(), "x", "t", 3, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	got := w.runtime.Signals("container-3")
	if len(got) != 3 || got[0] != syscall.SIGUSR1 || got[1] != got[0] || got[2] != got[0] {
		t.Errorf("got %v, want USR1 three times", got)
	}
	for _, text := range []string{"", "USR3", "0", "99", "-9"} {
		if err := w.Signal(t.Context(), "x", "t", 3, text); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "is not a signal: use one of ABRT, ALRM, BUS") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := w.Signal(t.Context(), "x", "t", 4, "USR1"); !types.Is(err, types.NotFound) {
		t.Errorf("no container: %v", err)
	}
	w.agent.set(func() { w.agent.bound = false })
	if err := w.Signal(t.Context(), "x", "t", 3, "USR1"); !types.Is(err, types.Precondition) {
		t.Errorf("it does not run: %v", err)
	}
}
