package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/etcdstore"
)

// trusting returns a configuration that accepts any certificate: the doctor checks it later, and
// sends nothing over the connection.
func trusting() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
}

// ownCertificate reads a certificate and its key. With a host, it also checks the certificate for
// clients that connect to host.
func ownCertificate(cert, key, host string) (*Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, err
	}
	c := &Certificate{Path: cert, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter}
	if host != "" {
		if err := leaf.VerifyHostname(host); err != nil {
			c.Wrong = err.Error()
		}
	}
	return c, nil
}

// readCertificate is ownCertificate for files that may be on a hanging disk: errHangs.
func readCertificate(ctx context.Context, cert, key, host string) (*Certificate, error) {
	type answer struct {
		c   *Certificate
		err error
	}
	a, ok := within(ctx, probeWait, func(context.Context) answer {
		c, err := ownCertificate(cert, key, host)
		return answer{c, err}
	})
	if !ok {
		return nil, errHangs
	}
	return a.c, a.err
}

// endpoint connects to one address of etcd.
func endpoint(ctx context.Context, address string, at etcdstore.Address) Endpoint {
	e := Endpoint{Address: address}
	network, place, host := "tcp", address, ""
	encrypted := at.CACert != "" || at.Cert != ""
	if u, err := url.Parse(address); err == nil && (u.Host != "" || u.Scheme == "unix") {
		place, encrypted = u.Host, encrypted || u.Scheme == "https"
		if u.Scheme == "unix" {
			network, place = "unix", u.Path
		}
	}
	if host, _, _ = net.SplitHostPort(place); at.ServerName != "" {
		host = at.ServerName
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	begin := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, network, place)
	if err != nil {
		e.Error = err.Error()
		return e
	}
	defer conn.Close()
	e.Took = time.Since(begin)
	if !encrypted || network == "unix" {
		return e
	}
	conf := trusting()
	if at.Cert != "" {
		if pair, err := tls.LoadX509KeyPair(at.Cert, at.Key); err == nil {
			conf.Certificates = []tls.Certificate{pair}
		}
	}
	secure := tls.Client(conn, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		e.Error = err.Error()
		return e
	}
	shown := secure.ConnectionState().PeerCertificates
	leaf := shown[0]
	e.Certificate = &Certificate{NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter, Wrong: distrust(shown, host, at.CACert)}
	return e
}

// distrust returns why a certificate is not valid for host with our authorities. It ignores the
// period of validity, which validity checks.
func distrust(shown []*x509.Certificate, host, authorities string) string {
	opts := x509.VerifyOptions{DNSName: host, Intermediates: x509.NewCertPool(), CurrentTime: shown[0].NotBefore.Add(time.Second)}
	for _, c := range shown[1:] {
		opts.Intermediates.AddCert(c)
	}
	if authorities != "" {
		text, err := os.ReadFile(authorities)
		opts.Roots = x509.NewCertPool()
		if err != nil || !opts.Roots.AppendCertsFromPEM(text) {
			return "no authority can be read from " + authorities
		}
	}
	if _, err := shown[0].Verify(opts); err != nil {
		return strings.TrimPrefix(err.Error(), "x509: ")
	}
	return ""
}
