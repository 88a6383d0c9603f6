package ops

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/escher-sched/escher/api/gateway"
	"github.com/escher-sched/escher/cmd/escher/internal/policylog"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// Config says what to serve, and where.
type Config struct {
	// Address is host:port, or unix:///path of a socket.
	Address string
	// Metrics are served at /metrics, Health at /healthz and /readyz.
	Metrics prometheus.Gatherer
	Health  *Health
	// Policies answers requests for the decisions of policies; nil means that none are served.
	Policies http.Handler
	// Pprof adds /debug/pprof/, which reveals the memory of the process.
	Pprof bool
	// Logger logs problems; nil means none.
	Logger *zap.Logger
}

// Server serves a handler at an address, without access control.
type Server struct {
	flag, address string
	handler       http.Handler
	log           *zap.Logger
	listener      net.Listener
	// served reports whether Run has used the listener.
	served bool
	// guard restricts each listener; nil restricts nothing.
	guard func(net.Listener) net.Listener
	// grpc returns a server for the calls of gRPC at the same address; nil means none.
	grpc func() *grpc.Server
}

// WithGRPC makes the server serve gRPC at the same address, by a new server for each Run.
func (s *Server) WithGRPC(make func() *grpc.Server) { s.grpc = make }

// New listens for requests for metrics and health. Invalid: the address is invalid. Precondition: it
// cannot listen there.
func New(cfg Config) (*Server, error) {
	if cfg.Pprof && !IsLocal(cfg.Address) {
		return nil, types.Errorf(types.Invalid, "pprof: %s can be reached from other machines, and a profile shows what is in memory: give --ops a loopback address or unix:///path, or leave --pprof out", cfg.Address)
	}
	mux := http.NewServeMux()
	mux.Handle("/", Handler(cfg.Metrics, cfg.Health))
	if cfg.Policies != nil {
		mux.Handle(policylog.Pattern, cfg.Policies)
	}
	if cfg.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return NewServer("ops", cfg.Address, mux, nil, cfg.Logger)
}

// NewServer listens at an address, which a flag gives. guard restricts each listener; nil restricts
// nothing. A nil log means none. Invalid: the address is invalid. Precondition: it cannot listen there.
func NewServer(flag, address string, h http.Handler, guard func(net.Listener) net.Listener, log *zap.Logger) (*Server, error) {
	if log == nil {
		log = zap.NewNop()
	}
	l, err := Listen(flag, address)
	if err != nil {
		return nil, err
	}
	return &Server{flag: flag, address: address, handler: h, guard: guard, log: log, listener: l}, nil
}

// Address returns the address it listens at.
func (s *Server) Address() string { return s.Addr().String() }

// Addr is Address with the network.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until ctx is done, and returns nil then. It may be called again, and then listens at
// the same address.
func (s *Server) Run(ctx context.Context) error {
	if s.served {
		address := s.address
		if !strings.HasPrefix(address, "unix://") {
			address = s.Address() // keeps a port that was chosen
		}
		l, err := Listen(s.flag, address)
		if err != nil {
			return err
		}
		s.listener = l
	}
	s.served = true
	l := s.listener
	if s.guard != nil {
		l = s.guard(l)
	}
	if s.grpc != nil {
		return gateway.Serve(ctx, l, s.grpc(), func(ctx context.Context, l net.Listener) error { return Serve(ctx, l, s.handler, s.log) })
	}
	return Serve(ctx, l, s.handler, s.log)
}

// Handler serves /metrics, /healthz and /readyz.
func Handler(metrics prometheus.Gatherer, health *Health) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { respond(w, health.Live(), nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { respond(w, health.Ready(), health.Warnings()) })
	return mux
}

// Outline is Handler without the details of what runs: it leaves out metrics with the prefix
// without, and the reason why it is not ready.
func Outline(metrics prometheus.Gatherer, health *Health, without string) http.Handler {
	some := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := metrics.Gather()
		return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool { return strings.HasPrefix(f.GetName(), without) }), err
	})
	brief := func(check func() error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			err := check()
			if err != nil {
				err = errBrief
			}
			respond(w, err, nil)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(some, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", brief(health.Live))
	mux.HandleFunc("GET /readyz", brief(health.Ready))
	return mux
}

// errBrief is the only text about problems.
var errBrief = types.Errorf(types.Unavailable, "no: ask with the token of the node, or look into its log")

// IsLocal reports whether only this machine can reach an address, host:port or unix:///path.
func IsLocal(address string) bool {
	if strings.HasPrefix(address, "unix://") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// respond writes ok, or the error, and the warnings.
func respond(w http.ResponseWriter, err error, warnings []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
	} else {
		fmt.Fprintln(w, "ok")
	}
	for _, line := range warnings {
		fmt.Fprintln(w, "warning: "+line)
	}
}

// Listen listens at host:port or unix:///path. It replaces a socket without a listener. flag names
// the address in errors.
func Listen(flag, address string) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix://")
	if !unix {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, types.Errorf(types.Invalid, "%s: %q is no address: write host:port or unix:///path", flag, address)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, types.Errorf(types.Precondition, "%s: listen at %s: %w: choose another port, or end who has it", flag, address, err)
		}
		return l, nil
	}
	if conn, err := net.Dial("unix", path); err == nil {
		return nil, errors.Join(conn.Close(), types.Errorf(types.Precondition, "%s: listen at %s: another program listens there: end it, or choose another path", flag, address))
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, types.Errorf(types.Precondition, "%s: listen at %s: %w", flag, address, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, types.Errorf(types.Precondition, "%s: listen at %s: %w", flag, address, err)
	}
	return l, nil
}

// Serve answers requests until ctx is done; pending requests then have a second.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *zap.Logger) error {
	server := &http.Server{
		Handler:           h,
		ConnContext:       gateway.Shown,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          zap.NewStdLog(log),
	}
	err := answer.Serve(ctx, l, server)
	if ctx.Err() != nil {
		return nil
	}
	return types.Errorf(types.Unavailable, "serve at %s: %w", l.Addr(), err)
}
