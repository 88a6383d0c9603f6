package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/soheilhy/cmux"
	"google.golang.org/grpc/credentials"
)

// handshakeTime bounds the time until a connection is ready for calls.
const handshakeTime = 10 * time.Second

// handshaken are the credentials of connections whose TLS has begun before gRPC gets them: one port
// serves HTTP and gRPC.
type handshaken struct{}

// ServerHandshake returns the connection, with what TLS knows of it.
func (handshaken) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	info := credentials.TLSInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}
	inner := conn
	if m, ok := conn.(*cmux.MuxConn); ok {
		inner = m.Conn
	}
	if t, ok := inner.(*tls.Conn); ok {
		info.State = t.ConnectionState()
		info.SecurityLevel = credentials.PrivacyAndIntegrity
	}
	return conn, info, nil
}

// ClientHandshake fails: this is the side of a server.
func (handshaken) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are those of a server")
}

// Info describes the credentials.
func (handshaken) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone returns a copy.
func (h handshaken) Clone() credentials.TransportCredentials { return h }

// OverrideServerName is without use for a server.
func (handshaken) OverrideServerName(string) error { return nil }
