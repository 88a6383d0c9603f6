package parts

import (
	"cmp"
	"crypto/tls"
	"net"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/types"
)

// defaultPort is the port of a node's API. apiConnections bounds its connections: each takes some
// 30 KiB, and any program that reaches the port may open them.
const (
	defaultPort    = "7421"
	apiConnections = 2304
)

// apiListen says how the API of a node listens.
type apiListen struct {
	address string
	// tls is nil without encryption.
	tls *tls.Config
	// local reports whether other machines cannot reach the API; advice is what to do about that.
	local  bool
	advice string
}

// APIAddress returns the address of a node's API, and whether only this machine can reach it.
// listen is the flag, empty for the default: with a certificate every address of the machine,
// without one loopback.
func APIAddress(listen string, encrypted bool) (address string, local bool) {
	fallback := net.JoinHostPort("127.0.0.1", defaultPort)
	if encrypted {
		fallback = ":" + defaultPort
	}
	address = cmp.Or(listen, fallback)
	return address, ops.IsLocal(address)
}

// apiListen returns how the API listens. Invalid: other machines could reach it without encryption,
// and no flag allows that.
func (c AgentConfig) apiListen() (apiListen, error) {
	conf, err := c.serverTLS()
	if err != nil {
		return apiListen{}, err
	}
	out := apiListen{tls: conf}
	out.address, out.local = APIAddress(c.Listen, conf != nil)
	const remedy = "give --tls-cert and --tls-key or, in a network that you trust, --insecure-listen"
	switch {
	case conf != nil:
	case out.local:
		out.advice = "the node's API listens at " + out.address + ", on loopback alone, as it has no certificate: escher logs, exec, cp and top work on this machine only; " + remedy
		if c.Listen == "" && c.Insecure {
			out.address, out.local, out.advice = ":"+defaultPort, false, ""
		}
	case !c.Insecure:
		return out, types.Errorf(types.Invalid, "listen: %s: without a certificate, every program that reads the network can use every task of this node: %s", out.address, remedy)
	}
	if conf == nil && !out.local {
		out.advice = "the node's API listens at " + out.address + " without encryption: its token and all else cross the network readably"
	}
	return out, nil
}

// warn logs that the API is not encrypted, if that needs advice.
func (a apiListen) warn(log *zap.Logger, progress Progress) {
	if a.advice != "" {
		log.Warn("the API of the node is not encrypted", zap.String("address", a.address), zap.String("reason", a.advice))
		progress("%s", a.advice)
	}
}

// listen listens.
func (a apiListen) listen() (net.Listener, error) {
	l, err := ops.Listen("listen", a.address)
	if err != nil {
		return nil, err
	}
	l = netutil.LimitListener(l, apiConnections)
	if a.tls != nil {
		l = tls.NewListener(l, a.tls)
	}
	return l, nil
}

// again returns the Listen of the API: it returns l first, and then new listeners at the address of
// l.
func (a apiListen) again(l net.Listener, address string) func(string) (net.Listener, string, error) {
	served := false
	return func(string) (net.Listener, string, error) {
		if !served {
			served = true
			return l, address, nil
		}
		again := a
		again.address = l.Addr().String()
		next, err := again.listen()
		return next, address, err
	}
}

// address returns the address of the API for others. A loopback address includes the boot id of
// this machine, because every machine has the same address: see nodeapi.New.
func (c AgentConfig) address(l net.Listener, at apiListen) string {
	scheme := "http://"
	if c.TLSCert != "" {
		scheme = "https://"
	}
	if c.Advertise != "" {
		return scheme + c.Advertise
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "unix://" + strings.TrimPrefix(l.Addr().String(), "unix://")
	}
	if at.local {
		return scheme + net.JoinHostPort(host, port) + "#" + watchdog.BootID()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = HostTowards(c.Etcd.Endpoints)
	}
	return scheme + net.JoinHostPort(host, port)
}

// host returns the host at which tasks of other nodes reach those of this one: that of Advertise, or
// the address from which this machine reaches etcd or, if etcd is here, other networks.
func (c AgentConfig) host() string {
	if given, _, err := net.SplitHostPort(c.Advertise); err == nil && given != "" {
		return given
	}
	return hostSeen(c.Etcd.Endpoints)
}

// hostSeen returns the address from which this machine reaches the first of some endpoints or, if that is
// here, other networks.
func hostSeen(endpoints []string) string {
	host := HostTowards(endpoints)
	const elsewhere = "192.0.2.1:9" // reserved for documentation: no machine has it
	if ip := net.ParseIP(host); ip.IsLoopback() {
		return HostTowards([]string{elsewhere})
	}
	return host
}

// serverTLS returns the TLS configuration of the API of a node; nil means no encryption.
func (c AgentConfig) serverTLS() (*tls.Config, error) {
	return serverTLS("tls-cert", "tls-key", c.TLSCert, c.TLSKey)
}

// serverTLS returns the TLS configuration of a server with a certificate in files, which two flags
// give; nil without files.
func serverTLS(certFlag, keyFlag, certFile, keyFile string) (*tls.Config, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil
	}
	load := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(certFile, keyFile)
		return &cert, err
	}
	if _, err := load(nil); err != nil {
		return nil, types.Errorf(types.Invalid, "%s, %s: %w: give both, readable and in PEM", certFlag, keyFlag, err)
	}
	// Each connection reads the certificate again, because certificates are renewed.
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: load}, nil
}
