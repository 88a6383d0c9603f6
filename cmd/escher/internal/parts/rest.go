package parts

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/api/gateway"
	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/api/secrets"
	"github.com/escher-sched/escher/api/tunnels"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

// RESTConfig says how to serve the HTTP API.
type RESTConfig struct {
	// Addresses are unix:///path of sockets, for root and the user of this process, https://host:port
	// for bearers of tokens, and http://host:port of this machine for them.
	Addresses []string
	// Cert and Key are the files of the certificate for https.
	Cert, Key string
	// CADir is the directory of the authority that signs the certificates of nodes; empty means none.
	CADir string
	// OIDC is the issuer at which users log in.
	OIDC  oidc.Config
	Store controlplane.Store
	// Etcd is how to reach etcd for the gateway, which is at the same addresses; nil means no gateway.
	Etcd *etcdstore.Config
	// History answers questions about ended tasks; nil means that there is none.
	History *accounting.Recorder
	// Secrets seal and open secrets; nil means that this server has no key for them.
	Secrets *secrets.Keys
	// NodeTLS has the authorities to trust for nodes; nil means those of the system.
	NodeTLS *tls.Config
	// Tunnels holds the tunnels of nodes; nil means that there are none.
	Tunnels *tunnels.Registry
	Version string
	Log     *zap.Logger
}

// StartREST starts the HTTP API. Invalid: an address is none, or could be reached without encryption.
// Precondition: it cannot listen there.
func StartREST(stack *Stack, cfg RESTConfig) error {
	authority := access.New(cfg.Store, time.Now, cfg.Log)
	var err error
	if authority.Issuer, err = oidc.New(cfg.OIDC, time.Now, cfg.Log); err != nil {
		return err
	}
	calls, err := cfg.gateway(stack, authority)
	if err != nil {
		return err
	}
	var ca *certs.Authority
	if cfg.CADir != "" {
		if ca, err = certs.Load(cfg.CADir); err != nil {
			return types.Errorf(types.ClassOf(err), "api-ca: %w", err)
		}
		if t := cfg.Etcd; t != nil && t.TLS != nil && t.TLS.RootCAs != nil && ca.Within(t.TLS.RootCAs) {
			return types.Errorf(types.Invalid, "api-ca: %s has the authority of etcd: etcd would take the certificates of nodes: make another one with escher admin certificate", cfg.CADir)
		}
	}
	followed, started := rest.Mirror(cfg.Store, time.Now, cfg.Log), false
	cfg.Store = followed
	for _, address := range cfg.Addresses {
		identify := rest.Bearer(authority)
		if strings.HasPrefix(address, "unix://") {
			identify = rest.Local("root")
		}
		listen, guard, err := cfg.listen(address, ca)
		if err != nil {
			return err
		}
		if !started { // the first to need it
			stack.Start("access to the api", authority.Run)
			stack.Start("listings of the api", followed.Run)
			if cfg.Tunnels != nil {
				stack.Start("tunnels of nodes", cfg.Tunnels.Run)
			}
			started = true
		}
		h := cfg.handler(ca, authority, identify)
		s, err := ops.NewServer("api", listen, h, guard, cfg.Log)
		if err != nil {
			return err
		}
		if calls != nil {
			s.WithGRPC(func() *grpc.Server { return calls(strings.HasPrefix(address, "unix://")) })
		}
		stack.Start("api at "+address, s.Run)
	}
	return nil
}

// handler returns the handler of the requests at an address.
func (cfg RESTConfig) handler(ca *certs.Authority, authority *access.Authority, identify rest.Identify) http.Handler {
	conf := rest.Config{
		Store: cfg.Store, History: cfg.History, NodeTLS: cfg.NodeTLS, CA: ca, Secrets: cfg.Secrets, Used: server.Used, Now: time.Now, Version: cfg.Version, Voice: howto.Say,
		Log: cfg.Log, Authority: authority, Identify: identify,
	}
	if cfg.Tunnels == nil {
		return rest.Handler(conf)
	}
	conf.Tunnel = cfg.Tunnels.Dial
	return cfg.Tunnels.Handler(rest.Handler(conf), authority, identify)
}

// gateway returns what makes a server of the gateway, for root at a socket of this machine or for bearers
// of tokens; nil if there is none. Its connection to etcd is its own, so that calls do not wait for those
// of the server.
func (cfg RESTConfig) gateway(stack *Stack, authority *access.Authority) (func(local bool) *grpc.Server, error) {
	if cfg.Etcd == nil || len(cfg.Addresses) == 0 {
		return nil, nil
	}
	store, err := etcdstore.Open(*cfg.Etcd)
	if err != nil {
		return nil, err
	}
	stack.Start("connection of the gateway", func(ctx context.Context) error {
		<-ctx.Done()
		return store.Close()
	})
	use, watching := gateway.NewUse(time.Now)
	return func(local bool) *grpc.Server {
		identify, known := gateway.Bearer(authority), authority.Knows
		if local {
			known = nil
			identify = func(context.Context) (access.Identity, error) { return access.Root("root"), nil }
		}
		return gateway.New(gateway.Config{Etcd: store.Client().ActiveConnection(), Limits: store.Limits(), Authority: authority, Identify: identify, Known: known, Use: use, Watching: watching, Rules: share.Rules(store), Now: time.Now})
	}, nil
}

// listen returns the address to listen at, and what guards the listener.
func (cfg RESTConfig) listen(address string, ca *certs.Authority) (listen string, guard func(net.Listener) net.Listener, err error) {
	scheme, rest, _ := strings.Cut(address, "://")
	switch {
	case rest == "":
	case scheme == "unix":
		if err := os.MkdirAll(filepath.Dir(rest), 0o755); err != nil {
			return "", nil, types.Errorf(types.Precondition, "api: make the directory of the socket: %w: choose another path", err)
		}
		return address, func(l net.Listener) net.Listener {
			_ = os.Chmod(rest, 0o600) // the credentials of a connection decide
			return limit(ownersOnly{l, make(chan struct{}, refusedAtOnce)}, restConnections, time.Now, cfg.Log)
		}, nil
	case scheme == "http" && ops.IsLocal(rest):
		return rest, func(l net.Listener) net.Listener { return limit(l, restConnections, time.Now, cfg.Log) }, nil
	case scheme == "http":
		return "", nil, types.Errorf(types.Invalid, "api: %q: without encryption, programs that read the network get the tokens: write https://%s, and give --api-cert and --api-key", address, rest)
	case scheme == "https":
		conf, err := serverTLS("api-cert", "api-key", cfg.Cert, cfg.Key)
		if err != nil {
			return "", nil, err
		}
		if conf == nil {
			return "", nil, types.Errorf(types.Invalid, "api: %s needs a certificate: give --api-cert and --api-key, which escher admin certificate makes", address)
		}
		if ca != nil { // agents show what it has signed
			conf.ClientCAs, conf.ClientAuth = ca.Pool(), tls.VerifyClientCertIfGiven
		}
		if cfg.Tunnels != nil {
			conf.GetCertificate = cfg.Tunnels.Certificate(conf.GetCertificate)
		}
		conf.NextProtos = []string{"http/1.1", "h2"} // HTTP/2 is for gRPC: a client of both gets HTTP/1.1
		return rest, func(l net.Listener) net.Listener {
			return gateway.NewHandshakes().Listen(limit(l, restConnections, time.Now, cfg.Log), conf)
		}, nil
	}
	return "", nil, types.Errorf(types.Invalid, "api: %q is no address: write unix:///path, or https://host:port", address)
}

// ownersOnly accepts connections of root and of the user of this process. Both have every right.
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
		`{"title":"Forbidden","status":403,"class":"precondition","detail":"this socket serves root and the user of the server: use sudo, or escher login with a token"}` + "\n"))
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
