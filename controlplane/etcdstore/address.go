package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/transport"

	"github.com/escher-sched/escher/types"
)

// The environment variables with the address of etcd, for every program.
const (
	EnvEndpoints  = "ESCHER_ENDPOINTS"
	EnvCACert     = "ESCHER_CACERT"
	EnvCert       = "ESCHER_CERT"
	EnvKey        = "ESCHER_KEY"
	EnvServerName = "ESCHER_SERVERNAME"
)

// Address is the address of etcd, as in flags, environment and files.
type Address struct {
	// Endpoints are host:port, http://host:port, https://host:port or
	// unix:///path of a socket.
	Endpoints []string `json:"endpoints,omitempty"`
	// CACert is the file of the authorities of etcd's certificate; empty means the system's. Cert
	// and Key are the files of our own certificate, read again for each connection. All are PEM.
	CACert string `json:"cacert,omitempty"`
	Cert   string `json:"cert,omitempty"`
	Key    string `json:"key,omitempty"`
	// ServerName is the name in etcd's certificate, if it is not the host of the endpoint.
	ServerName string `json:"servername,omitempty"`
}

// AddressFromEnv returns the address in the environment; empty if there is none.
func AddressFromEnv(getenv func(string) string) Address {
	return Address{
		Endpoints: SplitEndpoints(getenv(EnvEndpoints)), CACert: getenv(EnvCACert),
		Cert: getenv(EnvCert), Key: getenv(EnvKey), ServerName: getenv(EnvServerName),
	}
}

// SplitEndpoints splits endpoints at commas.
func SplitEndpoints(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// Or returns a, with its missing fields from b.
func (a Address) Or(b Address) Address {
	if len(a.Endpoints) == 0 {
		a.Endpoints = b.Endpoints
	}
	for _, x := range []struct {
		to   *string
		from string
	}{{&a.CACert, b.CACert}, {&a.Cert, b.Cert}, {&a.Key, b.Key}, {&a.ServerName, b.ServerName}} {
		if *x.to == "" {
			*x.to = x.from
		}
	}
	return a
}

// Config returns the configuration for Dial or Open. Invalid: it names all that is wrong.
func (a Address) Config() (Config, error) {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, types.Errorf(types.Invalid, format, args...))
	}
	if len(a.Endpoints) == 0 {
		wrong("endpoints: is missing: name etcd's, such as https://10.0.0.1:2379")
	}
	secure := a.CACert != "" || a.Cert != "" || a.Key != ""
	for _, e := range a.Endpoints {
		scheme, err := endpointScheme(e)
		switch {
		case err != nil:
			errs = append(errs, err)
		case scheme == "http" && secure:
			wrong("endpoints: %q is not encrypted, but cacert, cert or key is given: write https://, or leave them out", e)
		case scheme == "https":
			secure = true
		}
	}
	if (a.Cert == "") != (a.Key == "") {
		wrong("cert, key: only one of them is given: give both, or neither")
	}
	if err := errors.Join(errs...); err != nil {
		return Config{}, types.Errorf(types.Invalid, "%w", err)
	}
	cfg := Config{Endpoints: a.Endpoints}
	if !secure {
		return cfg, nil
	}
	conf, err := a.tls()
	if err != nil {
		return Config{}, err
	}
	cfg.TLS = conf
	return cfg, nil
}

// Dial connects a store to the address: see Dial.
func (a Address) Dial(ctx context.Context) (*Store, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	return Dial(ctx, cfg)
}

func (a Address) tls() (*tls.Config, error) {
	info := transport.TLSInfo{TrustedCAFile: a.CACert, CertFile: a.Cert, KeyFile: a.Key, ServerName: a.ServerName}
	conf, err := info.ClientConfig()
	if err != nil {
		return nil, types.Errorf(types.Invalid, "cacert, cert, key: %w: give readable files in PEM", err)
	}
	conf.MinVersion = tls.VersionTLS12
	return conf, nil
}

// endpointScheme returns http, https, unix or, without a scheme, "".
func endpointScheme(endpoint string) (string, error) {
	wrong := func(why string) error {
		return types.Errorf(types.Invalid, "endpoints: %q %s: write host:port, https://host:port or unix:///path", endpoint, why)
	}
	if endpoint == "" {
		return "", wrong("is empty")
	}
	if !strings.Contains(endpoint, "://") {
		if _, _, err := net.SplitHostPort(endpoint); err != nil {
			return "", wrong("has no port")
		}
		return "", nil
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", wrong("is not an address")
	}
	switch {
	case u.Scheme == "unix" && u.Host == "" && u.Path != "":
	case (u.Scheme == "http" || u.Scheme == "https") && u.Port() != "" && u.Hostname() != "":
	case u.Scheme == "http" || u.Scheme == "https":
		return "", wrong("has no host or no port")
	default:
		return "", wrong("is not an address of etcd")
	}
	return u.Scheme, nil
}
