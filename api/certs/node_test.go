package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
)

// requestOf returns a signing request for a key.
func requestOf(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// TestSign: the certificate of a node has its name and its key, is for clients alone, and short-lived.
func TestSign(t *testing.T) {
	now := time.Now()
	ca, err := Open(t.TempDir(), now)
	if err != nil {
		t.Fatal(err)
	}
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := Request(key, "n1")
	if err != nil {
		t.Fatal(err)
	}
	signed, hash, expires, err := ca.Sign(request, "n1", now)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(signed)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	verify := x509.VerifyOptions{Roots: ca.Pool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := cert.Verify(verify); err != nil || cert.IsCA || cert.Subject.CommonName != "node:n1" || len(cert.ExtKeyUsage) != 1 {
		t.Errorf("%v, %+v", err, cert.Subject)
	}
	if KeyHash(cert.RawSubjectPublicKeyInfo) != hash || !cert.NotAfter.Equal(expires.Truncate(time.Second)) || expires.Sub(now) != NodeLife {
		t.Errorf("key %s, expires %s", hash, expires)
	}
	verify.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if _, err := cert.Verify(verify); err == nil {
		t.Error("it passes for a server")
	}
}

// TestSignRefuses: a request proves the key, which is strong enough.
func TestSignRefuses(t *testing.T) {
	ca, err := Open(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	swapped, _ := pem.Decode(requestOf(t, good))
	swapped.Bytes[len(swapped.Bytes)-1] ^= 1
	for name, request := range map[string][]byte{
		"nothing": nil, "text": []byte("let me in"), "a key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte{1}}),
		"a short key": requestOf(t, short), "a small curve": requestOf(t, small), "another signature": pem.EncodeToMemory(swapped),
	} {
		if _, _, _, err := ca.Sign(request, "n1", time.Now()); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), "request: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Load(t.TempDir()); !types.Is(err, types.Precondition) {
		t.Errorf("an authority that is not there: %v", err)
	}
	if _, err := Request([]byte("junk"), "n1"); !types.Is(err, types.Invalid) {
		t.Errorf("a key that is none: %v", err)
	}
}
