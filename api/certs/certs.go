// Package certs makes the certificates of a cluster that has no certificate authority of its own: an
// authority in a directory, and certificates of servers signed by it.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/escher-sched/escher/types"
)

// The files in the directory of an authority, and how long the authority is valid.
const (
	CAFile, CAKeyFile = "ca.pem", "ca.key"
	caLife            = 10 * 365 * 24 * time.Hour
)

// MaxLife is the longest life of the certificate of a server: browsers refuse longer ones.
const MaxLife = 397 * 24 * time.Hour

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Open returns the authority in a directory, which it makes there if there is none. Invalid: its files
// are no authority.
func Open(dir string, now time.Time) (*Authority, error) {
	if _, err := os.Stat(filepath.Join(dir, CAFile)); errors.Is(err, fs.ErrNotExist) {
		return create(dir, now)
	}
	return Load(dir)
}

// Load returns the authority in a directory. Precondition: it cannot read its files. Invalid: they are no
// authority.
func Load(dir string) (*Authority, error) {
	certPEM, err := os.ReadFile(filepath.Join(dir, CAFile))
	if err != nil {
		return nil, types.Errorf(types.Precondition, "read the certificate authority: %w", err)
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, CAKeyFile))
	if err != nil {
		return nil, types.Errorf(types.Precondition, "read the key of the certificate authority: %w: it is needed to sign", err)
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, types.Errorf(types.Invalid, "%s, %s in %s: are not in PEM: choose another directory", CAFile, CAKeyFile, dir)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil || !cert.IsCA {
		return nil, types.Errorf(types.Invalid, "%s in %s: is no certificate authority: choose another directory", CAFile, dir)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, types.Errorf(types.Invalid, "%s in %s: is not the key of %s: choose another directory", CAKeyFile, dir, CAFile)
	}
	return &Authority{cert, key}, nil
}

// create makes an authority in a directory.
func create(dir string, now time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, types.Errorf(types.Precondition, "make %s: %w: choose another directory", dir, err)
	}
	tmpl := template("Escher", now, caLife)
	tmpl.IsCA, tmpl.BasicConstraintsValid, tmpl.MaxPathLenZero = true, true, true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, key, err := sign(tmpl, nil)
	if err != nil {
		return nil, err
	}
	if err := write(dir, CAFile, CAKeyFile, der, key); err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{cert, key}, err
}

// Server makes a certificate for the hosts of a server, names or addresses, and writes it and its key to
// two files of a directory. Invalid: a host is none, or the life is too long.
func (a *Authority) Server(dir, certFile, keyFile string, hosts []string, now time.Time, life time.Duration) error {
	if life <= 0 || life > MaxLife {
		return types.Errorf(types.Invalid, "life: %s is out of range: give up to %s", life, MaxLife)
	}
	tmpl := template("", now, min(life, a.cert.NotAfter.Sub(now)))
	tmpl.KeyUsage, tmpl.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
			continue
		}
		if len(h) > types.MaxHost || types.ValidateName("host", firstLabel(h)) != nil {
			return types.Errorf(types.Invalid, "host: %q is neither a name nor an address: correct it", types.Cut(h, types.MaxName))
		}
		tmpl.DNSNames = append(tmpl.DNSNames, h)
	}
	if len(hosts) == 0 {
		return types.Errorf(types.Invalid, "host: is missing: name the hosts by which clients reach the server")
	}
	tmpl.Subject.CommonName = types.Cut(hosts[0], 64)
	der, key, err := sign(tmpl, a)
	if err != nil {
		return err
	}
	return write(dir, certFile, keyFile, der, key)
}

// firstLabel returns a host up to its first dot.
func firstLabel(host string) string {
	for i, c := range host {
		if c == '.' {
			return host[:i]
		}
	}
	return host
}

// template returns a certificate to sign. It is valid from an hour ago, for clocks that are behind.
func template(name string, now time.Time, life time.Duration) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: []string{"Escher"}}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life)}
}

// sign makes a key and signs its certificate; by itself if the authority is nil.
func sign(tmpl *x509.Certificate, by *Authority) (der []byte, key *ecdsa.PrivateKey, err error) {
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, types.Errorf(types.Internal, "make a key: %w", err)
	}
	if tmpl.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, types.Errorf(types.Internal, "make a serial number: %w", err)
	}
	parent, signer := tmpl, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err = x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, types.Errorf(types.Internal, "sign a certificate: %w", err)
	}
	return der, key, nil
}

// write writes a certificate and its key, which only its owner can read. It replaces no file.
func write(dir, certFile, keyFile string, der []byte, key *ecdsa.PrivateKey) error {
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return types.Errorf(types.Internal, "write a key: %w", err)
	}
	for _, f := range []struct {
		name  string
		mode  fs.FileMode
		block pem.Block
	}{{keyFile, 0o600, pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}}, {certFile, 0o644, pem.Block{Type: "CERTIFICATE", Bytes: der}}} {
		path := filepath.Join(dir, f.name)
		out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
		if errors.Is(err, fs.ErrExist) {
			return types.Errorf(types.AlreadyExists, "%s exists already: remove it, or choose another directory", path)
		}
		if err == nil {
			err = errors.Join(pem.Encode(out, &f.block), out.Sync(), out.Close())
		}
		if err != nil {
			return types.Errorf(types.Precondition, "write %s: %w", path, err)
		}
	}
	return nil
}
