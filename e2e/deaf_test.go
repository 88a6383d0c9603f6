package e2e

import (
	"net"
	"path/filepath"
	"testing"
)

// deaf returns the path of a socket that accepts connections and never answers.
func deaf(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "deaf.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var conns []net.Conn
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			conns = append(conns, conn)
		}
		for _, conn := range conns {
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return path
}
