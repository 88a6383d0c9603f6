package parts

import (
	"net"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestLimit bounds the connections of an address, and says in the log when no more fit, once a minute.
func TestLimit(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zapcore.WarnLevel)
	now := time.Unix(1000, 0)
	l := limit(inner, 3, func() time.Time { return now }, zap.New(core))
	defer l.Close()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	accept := func() net.Conn {
		t.Helper()
		dial()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	accept()
	accept()
	if n := logged.Len(); n != 0 {
		t.Errorf("it logs %d times below the limit", n)
	}
	third := accept()
	all := logged.TakeAll()
	if len(all) != 1 || all[0].ContextMap()["count"] != int64(3) || all[0].ContextMap()["address"] != inner.Addr().String() {
		t.Errorf("at the limit: %+v", all)
	}
	dial()
	accepted := make(chan net.Conn)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	select {
	case <-accepted:
		t.Fatal("a fourth connection is accepted")
	default:
	}
	third.Close()
	third.Close() // counts once
	fourth := <-accepted
	if n := logged.Len(); fourth == nil || n != 0 {
		t.Errorf("within the minute: it logs %d times", n)
	}
	fourth.Close()
	now = now.Add(fullEvery)
	last := accept()
	if n := logged.Len(); n != 1 {
		t.Errorf("a minute later: it logs %d times", n)
	}
	last.Close()
}
