package tunnels

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/lease"
	"github.com/escher-sched/escher/types"
)

const (
	// peerName is the name under which servers ask for the certificate that they have for each other.
	peerName = "servers.escher.internal"
	// connectTimeout limits the connection to another server, and asked the wait for its answer.
	connectTimeout = 5 * time.Second
	asked          = 8 * time.Second
	// maxServers bounds the servers that are asked.
	maxServers = 32
	// shownFor is how long the key of a server outlives it.
	shownFor = 15 * time.Second
	// selfLife is the life of the certificate. Others compare its key, and not its time.
	selfLife = 100 * 365 * 24 * time.Hour
)

// self is the identity of this server for the others: a key that lasts as long as the process, and a token
// that they show. They find the hash of the key and the token in etcd, so an authority is not needed.
type self struct {
	cert  tls.Certificate
	hash  string
	token string
	// mark distinguishes this process from others of its name.
	mark string
}

func newSelf(now time.Time) (*self, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, types.Errorf(types.Internal, "make a key: %w", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{peerName}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(selfLife)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, types.Errorf(types.Internal, "make a certificate: %w", err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, types.Errorf(types.Internal, "make a certificate: %w", err)
	}
	return &self{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, hash: keyHash(parsed), token: rand.Text(), mark: strings.ToLower(rand.Text()[:markLength])}, nil
}

// keyHash returns the hash of the key of a certificate.
func keyHash(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// Certificate returns what gives the certificates of a listener: next does, except to other servers.
func (r *Registry) Certificate(next func(*tls.ClientHelloInfo) (*tls.Certificate, error)) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if hello.ServerName == peerName {
			return &r.self.cert, nil
		}
		return next(hello)
	}
}

// show keeps the key that shows the other servers how they reach this one, until ctx is done.
func (r *Registry) show(ctx context.Context) error {
	if r.cfg.Store == nil || r.cfg.Name == "" || r.cfg.Address == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	l := &types.Leader{Holder: r.cfg.Name, Address: "https://" + r.cfg.Address + "#" + r.self.hash, Token: r.self.token}
	return lease.Hold(ctx, r.cfg.Store, controlplane.LeaderKey(roleOf(r.cfg.Name, r.self.mark)), l, shownFor, nil)
}

// role begins the role of a server in its key: it holds tunnels.
const role = "tunnels."

// markLength is the length of the mark of a process.
const markLength = 6

// roleOf returns the role of a process of a server. Another one has another role, so a server that starts
// again does not wait for the end of the key before, nor does one with the name of another.
func roleOf(name, mark string) string {
	if all := role + name + "." + mark; types.IsName(all) {
		return all
	}
	sum := sha256.Sum256([]byte(name)) // of a long name
	return role + hex.EncodeToString(sum[:])[:40] + "." + mark
}

// forward connects another server to a node, by the tunnel that this server holds. NotFound: it holds none.
func (r *Registry) forward(w http.ResponseWriter, req *http.Request) error {
	given, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(given), []byte(r.self.token)) != 1 {
		return types.Errorf(types.Denied, "forward a connection: the sender is not a server of this cluster: use the API")
	}
	if err := upgrades(req, streamOf); err != nil {
		return err
	}
	node := req.PathValue("node")
	session := r.of(node)
	if session == nil {
		return types.Errorf(types.NotFound, "server %s holds no tunnel of node %.100s", r.cfg.Name, node)
	}
	r.mu.Lock()
	if !r.open {
		r.mu.Unlock()
		return errEnds()
	}
	r.ending.Add(1)
	r.mu.Unlock()
	defer r.ending.Done()
	stream, err := session.Open(req.Context())
	if err != nil {
		return err
	}
	defer stream.Close()
	conn, err := hijack(w, streamOf, r.cfg.Now())
	if err != nil {
		return err
	}
	splice(req.Context(), conn, stream)
	return nil
}

// splice passes data between two connections, and closes both when one of them or ctx ends.
func splice(ctx context.Context, a, b net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		_, _ = a.Close(), b.Close() // the copies end
	}()
	back := make(chan struct{})
	go func() {
		defer close(back)
		defer cancel()
		_, _ = io.Copy(a, b) // the other side sees the end
	}()
	_, _ = io.Copy(b, a)
	cancel()
	<-back
	<-done
}

// server is another server.
type server struct {
	name, host, hash, token string
}

// servers returns the other servers.
func (r *Registry) servers(ctx context.Context) ([]server, error) {
	if r.cfg.Store == nil || r.cfg.Name == "" {
		return nil, nil
	}
	page, err := r.cfg.Store.List(ctx, controlplane.ListOptions{Prefix: controlplane.LeaderKey(role), Limit: maxServers})
	if err != nil {
		return nil, err
	}
	var all []server
	for _, kv := range page.KVs {
		var l types.Leader
		if !controlplane.Read(kv, &l) || l.Token == r.self.token {
			continue
		}
		u, err := url.Parse(l.Address)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.Fragment == "" {
			continue // it takes no tunnels
		}
		all = append(all, server{l.Holder, u.Host, u.Fragment, l.Token})
	}
	return all, nil
}

// elsewhere connects to a node by the tunnel that another server holds. It asks all of them, as an agent may
// have changed to any. Unavailable: none holds one.
func (r *Registry) elsewhere(ctx context.Context, node string) (net.Conn, error) {
	all, err := r.servers(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, asked)
	defer cancel()
	type got struct {
		conn net.Conn
		err  error
	}
	answers := make(chan got, len(all))
	for _, s := range all {
		go func() { // it ends with ctx
			conn, err := r.ask(ctx, s, node)
			answers <- got{conn, err}
		}()
	}
	problem := types.Errorf(types.Unavailable, "no server holds a tunnel of node %s: its agent opens one by itself, unless it does not run: try again in a moment", node)
	for i := range all {
		a := <-answers
		if a.err == nil {
			go func() { // another one at the same time is older
				for range len(all) - i - 1 {
					if late := <-answers; late.conn != nil {
						late.conn.Close()
					}
				}
			}()
			return a.conn, nil
		}
		if !types.Is(a.err, types.NotFound) {
			problem = types.Errorf(types.Unavailable, "connect to node %s by another server: %w", node, a.err)
		}
	}
	return nil, problem
}

// ask asks a server to connect to a node. NotFound: it holds no tunnel of the node.
func (r *Registry) ask(ctx context.Context, s server, node string) (net.Conn, error) {
	raw, err := r.cfg.Connect(ctx, s.host)
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "ask server %s at %s: %w", s.name, s.host, err)
	}
	conn := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: peerName, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, // its key is compared with the one in etcd
		VerifyConnection: func(state tls.ConnectionState) error {
			if subtle.ConstantTimeCompare([]byte(keyHash(state.PeerCertificates[0])), []byte(s.hash)) != 1 {
				return types.Errorf(types.Unavailable, "another program answers at its address: wait %s if it has started again, else give each server another address in --api", shownFor)
			}
			return nil
		},
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, types.Errorf(types.Unavailable, "ask server %s at %s: %w", s.name, s.host, err)
	}
	req, err := request(ctx, "https://"+peerName, node, streamOf, s.token)
	if err != nil {
		raw.Close()
		return nil, err
	}
	stream, err := upgrade(conn, "server "+s.name, req)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return stream, nil
}
