package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/escher-sched/escher/types"
)

// errPaused is about keys for which the issuer was asked too often.
var errPaused = errors.New("its keys were read some seconds ago")

// keyError is the key, in a context, of where to put the error about the key of a signature: verifiers do not
// wrap it.
type keyError struct{}

// keySet are the keys of an issuer. A token with an unknown one makes it ask the issuer for others.
type keySet struct{ remote *oidc.RemoteKeySet }

// VerifySignature returns the payload of a token with a signature by one of the keys.
func (k keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.remote.VerifySignature(ctx, jwt)
	if to, ok := ctx.Value(keyError{}).(*error); ok {
		*to = err
	}
	return payload, err
}

const (
	// askTime bounds a request to an issuer, and maxAnswer its answer in bytes.
	askTime   = 10 * time.Second
	maxAnswer = 1 << 20
)

// transport sends requests to an issuer, by https alone.
type transport struct {
	base http.RoundTripper
	// allow reports whether a request may be sent now; nil means that each may.
	allow func() bool
	// fails makes each answer that is none of success an error.
	fails bool
}

// newTransport returns the transport to an issuer whose certificate comes from the authorities in a file; empty
// means the system's. Invalid: the file cannot be read.
func newTransport(ca string) (transport, error) {
	base := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: askTime, IdleConnTimeout: time.Minute, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if ca == "" {
		return transport{base: base, fails: true}, nil
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return transport{}, types.Errorf(types.Invalid, "oidc-ca: %w: give the file of the authority of the issuer's certificate", err)
	}
	base.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !base.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
		return transport{}, types.Errorf(types.Invalid, "oidc-ca: %s has no certificate in PEM: give the file of the authority of the issuer's certificate", ca)
	}
	return transport{base: base, fails: true}, nil
}

// client returns a client with the transport.
func (t transport) client() *http.Client { return &http.Client{Transport: t, Timeout: askTime} }

// RoundTrip sends a request.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s is not encrypted: have the issuer name addresses with https", r.URL.Redacted())
	}
	if t.allow != nil && !t.allow() {
		return nil, errPaused
	}
	res, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if t.fails && res.StatusCode >= http.StatusBadRequest { // its body may be a long page
		res.Body.Close()
		return nil, fmt.Errorf("it answers %s", res.Status)
	}
	res.Body = http.MaxBytesReader(nil, res.Body, maxAnswer)
	return res, nil
}
