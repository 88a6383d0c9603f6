package certs

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"time"

	"github.com/escher-sched/escher/types"
)

// NodeLife is how long the certificate of a node is valid: its agent renews it long before.
const NodeLife = 24 * time.Hour

// The shortest and the longest RSA key of a node, in bits.
const minRSA, maxRSA = 2048, 4096

// NodeName returns the common name in the certificate of a node: its subject.
func NodeName(node string) string { return types.NodeSubject + ":" + node }

// Sign signs a certificate for the agent of a node, given its signing request in PEM, and returns it in
// PEM, and the hash of its key. The request says nothing but the key. Invalid: it is no such request.
func (a *Authority) Sign(request []byte, node string, now time.Time) (certPEM []byte, key string, expires time.Time, err error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, "", expires, types.Errorf(types.Invalid, "request: is no signing request in PEM: make one with the key of the node")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = csr.CheckSignature() // the sender has the key
	}
	if err != nil {
		return nil, "", expires, types.Errorf(types.Invalid, "request: %w: make one with the key of the node", err)
	}
	if !strong(csr.PublicKey) {
		return nil, "", expires, types.Errorf(types.Invalid, "request: its key is too short or too long: make one on the curve P-256, or an RSA key of %d to %d bits", minRSA, maxRSA)
	}
	tmpl := template(NodeName(node), now, min(NodeLife, a.cert.NotAfter.Sub(now)))
	tmpl.KeyUsage, tmpl.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if tmpl.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, "", expires, types.Errorf(types.Internal, "make a serial number: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, csr.PublicKey, a.key)
	if err != nil {
		return nil, "", expires, types.Errorf(types.Internal, "sign a certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), KeyHash(csr.RawSubjectPublicKeyInfo), tmpl.NotAfter, nil
}

// strong reports whether a public key is long enough.
func strong(key any) bool {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return k.Params().BitSize >= elliptic.P256().Params().BitSize
	case ed25519.PublicKey:
		return true
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSA && k.N.BitLen() <= maxRSA
	}
	return false
}

// KeyHash returns the SHA-256 of a public key in the encoding of certificates, in hexadecimal digits.
func KeyHash(publicKeyInfo []byte) string {
	sum := sha256.Sum256(publicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// Within reports whether a pool trusts what the authority signs.
func (a *Authority) Within(pool *x509.CertPool) bool {
	_, err := a.cert.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

// Pool returns the authority as one to trust.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// NewKey returns a new key for a node, in PEM.
func NewKey() (keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, types.Errorf(types.Internal, "make a key: %w", err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, types.Errorf(types.Internal, "write a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), nil
}

// Request returns a signing request, in PEM, for the key of a node, in PEM. Invalid: it is no such key.
func Request(keyPEM []byte, node string) ([]byte, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, types.Errorf(types.Invalid, "the key of the node is not in PEM: remove the file, and start again")
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "the key of the node: %w: remove the file, and start again", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: NodeName(node)}}, key)
	if err != nil {
		return nil, types.Errorf(types.Internal, "make a signing request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}
