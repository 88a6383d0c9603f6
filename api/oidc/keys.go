package oidc

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/escher-sched/escher/types"
)

// errUnknown is about a signature by none of the keys of the issuer.
var errUnknown = errors.New("none of its keys made the signature")

// keyError is the key, in a context, of where to put the error about the key of a signature: verifiers do not
// wrap it.
type keyError struct{}

// keySet are the keys of an issuer. A token with an unknown one makes it read them again, within bounds.
type keySet struct {
	url    string
	client *http.Client
	// allow reports whether the keys may be read now.
	allow func() bool
	// reading has an entry while the keys are being read.
	reading chan struct{}

	mu   sync.Mutex
	keys []jose.JSONWebKey
	// reads counts the attempts to read, and failed is the error of the last one.
	reads  int
	failed error
}

// VerifySignature returns the payload of a token with a signature by one of the keys.
func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.verify(ctx, jwt)
	if to, ok := ctx.Value(keyError{}).(*error); ok {
		*to = err
	}
	return payload, err
}

func (k *keySet) verify(ctx context.Context, jwt string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(jwt, asymmetric())
	if err != nil {
		return nil, err
	}
	for asked := false; ; {
		k.mu.Lock()
		keys, reads, failed := k.keys, k.reads, k.failed
		k.mu.Unlock()
		for _, key := range keys {
			if kid := jws.Signatures[0].Header.KeyID; kid != "" && kid != key.KeyID {
				continue
			}
			if payload, err := jws.Verify(&key); err == nil {
				return payload, nil
			}
		}
		if asked {
			return nil, cmp.Or(failed, errUnknown)
		}
		if asked, err = k.read(ctx, reads); err != nil {
			return nil, err
		}
	}
}

// read reads the keys, unless another call has since there were a number of reads, or too many were. It
// reports whether the keys are as new as they may be.
func (k *keySet) read(ctx context.Context, reads int) (bool, error) {
	select {
	case k.reading <- struct{}{}:
	case <-ctx.Done():
		return false, types.Errorf(types.Unavailable, "%w", context.Cause(ctx))
	}
	defer func() { <-k.reading }()
	k.mu.Lock()
	another, first := k.reads != reads, k.reads == 0
	k.mu.Unlock()
	if another {
		return false, nil
	}
	if !first && !k.allow() {
		return true, nil
	}
	keys, err := k.get()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	if k.failed = err; err == nil {
		k.keys = keys
	}
	return true, nil
}

// get gets the keys of the issuer. It leaves out those that it does not understand. Unavailable: it gets none.
func (k *keySet) get() ([]jose.JSONWebKey, error) {
	res, err := k.client.Get(k.url)
	var set struct{ Keys []json.RawMessage }
	if err == nil {
		defer res.Body.Close()
		err = json.NewDecoder(res.Body).Decode(&set)
	}
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "%w", err)
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(text, &key) == nil && key.Use != "enc" {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

const (
	// askTime bounds a request to an issuer, and maxAnswer its answer in bytes.
	askTime   = 10 * time.Second
	maxAnswer = 1 << 20
)

// transport sends requests to an issuer, by https alone.
type transport struct {
	base http.RoundTripper
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
