package escher

import (
	"flag"
	"log/slog"
	"os"
	"strings"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/contexts"
)

// Option is an option of Connect.
type Option func(*options)

type options struct {
	given  contexts.Given
	log    *slog.Logger
	getenv func(string) string
}

func (o options) environment() func(string) string {
	if o.getenv != nil {
		return o.getenv
	}
	return os.Getenv
}

func (o options) logger() *zap.Logger {
	if o.log == nil {
		return zap.NewNop()
	}
	return zap.New(slogCore{to: o.log.Handler()})
}

// WithEndpoints connects to an etcd at host:port, https://host:port or unix:///path.
func WithEndpoints(endpoints ...string) Option {
	return func(o *options) { o.given.Endpoints = endpoints }
}

// WithCertificates connects to etcd by TLS. caCert is the file of the authorities of its
// certificate, empty for the system's. cert and key are the files of our own. All are PEM.
func WithCertificates(caCert, cert, key string) Option {
	return func(o *options) { o.given.CACert, o.given.Cert, o.given.Key = caCert, cert, key }
}

// WithDir connects to the cluster that escher dev runs in a directory.
func WithDir(dir string) Option { return func(o *options) { o.given.Dir = dir } }

// WithContext connects to the cluster of a context: see escher context.
func WithContext(name string) Option { return func(o *options) { o.given.Context = name } }

// WithNamespace selects the namespace. A task can select only its own.
func WithNamespace(name string) Option { return func(o *options) { o.given.Namespace = name } }

// WithLogger logs lost connections, and what policies do. Without it, nothing is logged.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithEnvironment replaces os.Getenv.
func WithEnvironment(getenv func(string) string) Option {
	return func(o *options) { o.getenv = getenv }
}

// Flags adds the flags -endpoints, -dir, -context and -namespace to a set, and returns the option
// for what was given when Connect is called: parse the flags before.
func Flags(set *flag.FlagSet) Option {
	endpoints := set.String("endpoints", "", "addresses of etcd, with commas between")
	dir := set.String("dir", "", "directory of a cluster of escher dev")
	name := set.String("context", "", "context of the cluster")
	namespace := set.String("namespace", "", "namespace to use")
	return func(o *options) {
		if *endpoints != "" {
			o.given.Endpoints = strings.Split(*endpoints, ",")
		}
		for to, text := range map[*string]string{&o.given.Dir: *dir, &o.given.Context: *name, &o.given.Namespace: *namespace} {
			if text != "" {
				*to = text
			}
		}
	}
}
