package parts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/remote"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// Join is the server by which an agent reaches the cluster.
type Join struct {
	// Server is its address, CACert the file of the authorities of its certificate, and Token a token of the
	// node; empty if it has joined already.
	Server, CACert, Token string
	// identity is that of the node, once it has joined.
	identity *nodeIdentity
}

// client returns a client of the server with the present identity of the node, and a new connection.
func (j Join) client() (*client.Client, error) {
	cfg := client.Config{Server: j.Server, CACert: j.CACert, Token: j.Token}
	if j.identity.has() {
		cfg.Token, cfg.Certificate = "", j.identity.present
	}
	return client.New(cfg)
}

// nodes returns what reaches other nodes by the server, and what to call at the end.
func (j Join) nodes() (*nodeapi.Server, func(), error) {
	c, err := j.client()
	if err != nil {
		return nil, nil, err
	}
	return remote.Nodes(c), c.Close, nil
}

// The files of the identity of a node in its state directory.
const (
	nodeKeyFile  = "node.key"
	nodeCertFile = "node.pem"
)

// nodeIdentity is the certificate by which servers know the agent of a node. The agent joins by a token
// once, and renews its certificate by itself.
type nodeIdentity struct {
	node, dir string
	join      Join
	log       *zap.Logger
	cert      atomic.Pointer[tls.Certificate]
}

// identify returns the identity of a node: the certificate in its directory, or a new one by its token.
// It has none if the server signs no certificates; then the agent shows its token. Denied: the token is
// not one of this node, or the name of the node belongs to another key.
func (j Join) identify(ctx context.Context, node, dir string, progress Progress, log *zap.Logger) (*nodeIdentity, error) {
	id := &nodeIdentity{node: node, dir: dir, join: j, log: log}
	if !strings.HasPrefix(j.Server, "https://") || id.load() && (j.Token == "" || !id.refused(ctx)) {
		return id, nil
	}
	if id.has() { // it was revoked, or is of another cluster: the machine joins again, with a new key
		id.cert.Store(nil)
		if err := errors.Join(os.Remove(filepath.Join(dir, nodeCertFile)), os.Remove(filepath.Join(dir, nodeKeyFile))); err != nil {
			return nil, types.Errorf(types.Precondition, "join node %s: %w: give another --state-dir", node, err)
		}
	}
	if j.Token == "" {
		return nil, types.Errorf(types.Precondition, "join node %s: it has no certificate yet, and no token: set ESCHER_TOKEN to one that an administrator makes (escher auth token create --for %s)", node, certs.NodeName(node))
	}
	err := Persist(ctx, progress, func() error { return id.obtain(ctx, j.Token) })
	if types.Is(err, types.Precondition) {
		log.Warn("the agent goes on with its token", zap.Error(err))
		return id, nil
	}
	return id, err
}

// refused reports whether the server takes the certificate for none of its nodes. A server that does not
// answer refuses nothing.
func (n *nodeIdentity) refused(ctx context.Context) bool {
	c, err := client.New(client.Config{Server: n.join.Server, CACert: n.join.CACert, Certificate: n.present})
	if err != nil {
		return false
	}
	defer c.Close()
	err = c.Get(ctx, "/v1/whoami", nil, nil)
	return types.Is(err, types.Denied) || err != nil && strings.Contains(err.Error(), "tls: ")
}

// has reports whether there is a certificate.
func (n *nodeIdentity) has() bool { return n.cert.Load() != nil }

// load takes the certificate in the directory, and reports whether it is valid.
func (n *nodeIdentity) load() bool {
	cert, err := tls.LoadX509KeyPair(filepath.Join(n.dir, nodeCertFile), filepath.Join(n.dir, nodeKeyFile))
	if err != nil {
		return false
	}
	if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil || cert.Leaf.Subject.CommonName != certs.NodeName(n.node) || !time.Now().Before(cert.Leaf.NotAfter) {
		return false
	}
	n.cert.Store(&cert)
	return true
}

// present returns the certificate to show to a server.
func (n *nodeIdentity) present(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if c := n.cert.Load(); c != nil {
		return c, nil
	}
	return new(tls.Certificate), nil // none
}

// obtain gets a certificate, by a token or by the last one.
func (n *nodeIdentity) obtain(ctx context.Context, token string) error {
	keyPath := filepath.Join(n.dir, nodeKeyFile)
	key, err := os.ReadFile(keyPath)
	if errors.Is(err, fs.ErrNotExist) {
		if key, err = certs.NewKey(); err == nil {
			err = writeFile(keyPath, key)
		}
	}
	if err != nil {
		return types.Errorf(types.Invalid, "join node %s: %w: give another --state-dir", n.node, err)
	}
	request, err := certs.Request(key, n.node)
	if err != nil {
		return err
	}
	c, err := client.New(client.Config{Server: n.join.Server, CACert: n.join.CACert, Token: token, Certificate: n.present})
	if err != nil {
		return err
	}
	defer c.Close()
	var signed struct{ Certificate string }
	path := "/v1/nodes/" + url.PathEscape(n.node) + "/certificate"
	if err := c.Do(ctx, http.MethodPost, path, map[string]string{"request": string(request)}, &signed); err != nil {
		return types.Errorf(types.ClassOf(err), "join node %s: %w", n.node, err)
	}
	if err := writeFile(filepath.Join(n.dir, nodeCertFile), []byte(signed.Certificate)); err != nil {
		return types.Errorf(types.Invalid, "join node %s: %w: give another --state-dir", n.node, err)
	}
	if !n.load() {
		return types.Errorf(types.Internal, "join node %s: the server at %s has sent no certificate of it", n.node, n.join.Server)
	}
	return nil
}

// writeFile replaces a file that only its owner can read, as a whole.
func writeFile(path string, data []byte) error {
	next := path + ".new"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// renewRetry is how long an agent waits after a renewal that failed: it has hours left.
const renewRetry = time.Minute

// renewal returns when to renew a certificate: after two thirds of its life.
func renewal(cert *x509.Certificate) time.Time {
	return cert.NotBefore.Add(cert.NotAfter.Sub(cert.NotBefore) * 2 / 3)
}

// Run renews the certificate until ctx is done.
func (n *nodeIdentity) Run(ctx context.Context) error {
	for {
		if err := supervise.Pause(ctx, time.Until(renewal(n.cert.Load().Leaf))); err != nil {
			return err
		}
		if err := n.obtain(ctx, ""); err != nil {
			n.log.Warn("the certificate of the node is not renewed yet", zap.Error(err))
			if err := supervise.Pause(ctx, renewRetry); err != nil {
				return err
			}
		}
	}
}
