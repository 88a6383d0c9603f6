package parts

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/types"
)

// restConnections bounds the connections to the HTTP API.
const restConnections = 1024

// StartREST starts the HTTP API at a Unix socket, unix:///path, for root and the user of this process.
// nodes has the authorities to trust for nodes; nil means those of the system. Invalid: the address is
// no Unix socket. Precondition: it cannot listen there.
func StartREST(stack *Stack, address string, store controlplane.Store, nodes *tls.Config, version string, log *zap.Logger) error {
	path, ok := strings.CutPrefix(address, "unix://")
	if !ok || path == "" {
		return types.Errorf(types.Invalid, "api: %q is no Unix socket: the API knows no users, so give unix:///path", address)
	}
	h := rest.Handler(rest.Config{Store: store, NodeTLS: nodes, Used: server.Used, Now: time.Now, Version: version, Voice: howto.Say, Log: log})
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return types.Errorf(types.Precondition, "api: make the directory of the socket: %w: choose another path", err)
	}
	s, err := ops.NewServer("api", address, h, func(l net.Listener) net.Listener {
		_ = os.Chmod(path, 0o600) // the credentials of a connection decide
		return netutil.LimitListener(ownersOnly{l, make(chan struct{}, refusedAtOnce)}, restConnections)
	}, log)
	if err != nil {
		return err
	}
	stack.Start("api at "+address, s.Run)
	return nil
}

// ownersOnly accepts connections of root and of the user of this process: the API has no other access
// control.
type ownersOnly struct {
	net.Listener
	// refusing has an entry for each connection that is being refused.
	refusing chan struct{}
}

// refusedAtOnce is how many connections are told why they are refused, at once. Others are only closed.
const refusedAtOnce = 16

// Accept returns the next connection of such a user, and closes others.
func (l ownersOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || mayUse(c, os.Geteuid()) {
			return c, err
		}
		select {
		case l.refusing <- struct{}{}:
			go func() { // it ends within a second
				defer func() { <-l.refusing }()
				refuse(c)
			}()
		default:
			c.Close()
		}
	}
}

// refuse says why a connection is closed.
func refuse(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = c.Read(make([]byte, 4096)) // unread, the request would reset the connection
	_, _ = c.Write([]byte("HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\nConnection: close\r\n\r\n" +
		`{"title":"Forbidden","status":403,"class":"precondition","detail":"the API serves root and the user of the server: use sudo"}` + "\n"))
}

// mayUse reports whether the program at the other end of a Unix socket is run by root or a user.
func mayUse(c net.Conn, user int) bool {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	err = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		ok = err == nil && (peer.Uid == 0 || int(peer.Uid) == user)
	})
	return err == nil && ok
}
