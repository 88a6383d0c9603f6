package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/soheilhy/cmux"
	"google.golang.org/grpc/credentials"

	"github.com/escher-sched/escher/api/access"
)

// handshakeTime bounds the time until a connection is ready for calls.
const handshakeTime = 10 * time.Second

// handshaken are the credentials of connections whose TLS has begun before gRPC gets them: one port
// serves HTTP and gRPC.
type handshaken struct{}

// ServerHandshake returns the connection, with what TLS knows of it.
func (handshaken) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	info := credentials.TLSInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}
	if state := stateOf(conn); state != nil {
		info.State = *state
		info.SecurityLevel = credentials.PrivacyAndIntegrity
	}
	return conn, info, nil
}

// stateOf returns what TLS knows of a connection; nil without TLS.
func stateOf(conn net.Conn) *tls.ConnectionState {
	if m, ok := conn.(*cmux.MuxConn); ok {
		conn = m.Conn
	}
	t, ok := conn.(*tls.Conn)
	if !ok {
		return nil
	}
	state := t.ConnectionState()
	return &state
}

// Shown returns the context of the requests on a connection of Serve, with the certificate that its client
// has shown and the authority has signed.
func Shown(ctx context.Context, conn net.Conn) context.Context {
	if state := stateOf(conn); state != nil && len(state.VerifiedChains) > 0 {
		return access.Shows(ctx, state.PeerCertificates[0])
	}
	return ctx
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
