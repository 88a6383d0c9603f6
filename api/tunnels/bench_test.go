package tunnels_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/gateway"
	"github.com/escher-sched/escher/api/tunnels"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/nodeagent/serve/tunnel"
	"github.com/escher-sched/escher/types"
)

const (
	// benchAgents is how many agents the benchmark connects, and idleFor how long they are idle then.
	benchAgents = 10_000
	idleFor     = 20 * time.Second
	// agentsOf has the address of the server for the process of the agents, and the file of its authority.
	agentsOf = "ESCHER_BENCH_AGENTS"
)

// BenchmarkTunnels connects agents of another process to a server, whose port has TLS and gRPC as that of
// escher server. It tells what an idle one costs the server.
func BenchmarkTunnels(b *testing.B) {
	for b.Loop() {
		benchTunnels(b)
	}
}

func benchTunnels(b *testing.B) {
	pki := b.TempDir()
	ca, err := certs.Open(pki, time.Now())
	if err == nil {
		err = ca.Server(pki, "s.pem", "s.key", []string{"localhost"}, time.Now(), time.Hour)
	}
	if err != nil {
		b.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(pki, "s.pem"), filepath.Join(pki, "s.key"))
	if err != nil {
		b.Fatal(err)
	}
	registry, err := tunnels.New(tunnels.Config{Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	authority := access.New(memstore.New(), time.Now, zap.NewNop())
	identify := func(r *http.Request) (access.Identity, error) {
		return access.Identity{Subject: types.NodeSubject + ":" + r.PathValue("node")}, nil
	}
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	handler := registry.Handler(http.NotFoundHandler(), authority, identify)
	port := tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1", "h2"}})
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	for _, run := range []func(context.Context) error{registry.Run, authority.Run, func(ctx context.Context) error {
		return gateway.Serve(ctx, port, grpc.NewServer(), func(ctx context.Context, l net.Listener) error {
			return answer.Serve(ctx, l, &http.Server{Handler: handler, ConnContext: gateway.Shown, ReadHeaderTimeout: time.Minute})
		})
	}} {
		group.Go(func() { _ = run(ctx) })
	}
	before, goroutines := inUse(), runtime.NumGoroutine()
	agents := exec.CommandContext(b.Context(), os.Args[0], "-test.run", "^TestBenchAgents$", "-test.timeout", "1h")
	agents.Env = append(os.Environ(), agentsOf+"=https://"+strings.Replace(l.Addr().String(), "127.0.0.1", "localhost", 1)+" "+filepath.Join(pki, certs.CAFile))
	agents.Stderr = os.Stderr
	if err := agents.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _, _ = agents.Process.Kill(), agents.Wait() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for registry.Len() < benchAgents {
		if <-tick.C; time.Since(began) > 10*time.Minute {
			b.Fatalf("%d of %d agents are connected", registry.Len(), benchAgents)
		}
	}
	b.ReportMetric(time.Since(began).Seconds(), "s-to-connect")
	from, at := processor(b), time.Now()
	<-time.After(idleFor)
	b.ReportMetric((processor(b)-from).Seconds()/time.Since(at).Seconds()*100, "%-of-a-core-idle")
	b.ReportMetric(float64(inUse()-before)/benchAgents, "B/agent")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/benchAgents, "goroutines/agent")
	if registry.Len() != benchAgents {
		b.Errorf("%d agents are left", registry.Len())
	}
}

// inUse returns the bytes of the heap and of stacks in use.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools are empty after the second
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// processor returns the processor time of this process.
func processor(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestBenchAgents is the process of the agents of the benchmark.
func TestBenchAgents(t *testing.T) {
	server, cacert, _ := strings.Cut(os.Getenv(agentsOf), " ")
	if server == "" {
		return // it is not that process
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, 16) // handshakes at a time
	for i := range benchAgents {
		a := tunnel.New(func(ctx context.Context) (io.ReadWriteCloser, error) {
			slots <- struct{}{}
			defer func() { <-slots }()
			api, err := client.New(client.Config{Server: server, CACert: cacert})
			if err != nil {
				return nil, err
			}
			defer api.Close()
			return tunnels.Connect(ctx, api, fmt.Sprintf("n%d", i))
		}, nil)
		group.Go(func() { _ = a.Run(t.Context()) }) // the benchmark kills this process
	}
	group.Wait()
}
