package cli

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
)

// TestServedWithoutEtcd runs each example of the help with a server that refuses all: no command dials etcd.
// Those that need etcd itself say so, and are the ones in docs/security.md.
func TestServedWithoutEtcd(t *testing.T) {
	etcd, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	var dialed atomic.Int32
	go func() {
		for {
			c, err := etcd.Accept()
			if err != nil {
				return
			}
			dialed.Add(1)
			c.Close()
		}
	}()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"class": "denied", "detail": "no right"}`) // the command may be gone
	}))
	defer server.Close()
	dir := t.TempDir()
	env := map[string]string{"ESCHER_SERVER": server.URL, "ESCHER_TOKEN": "x", "ESCHER_ENDPOINTS": "http://" + etcd.Addr().String(), "XDG_CONFIG_HOME": dir, "HOME": dir}
	var direct []string
	// These are about this machine, or reach no cluster.
	local := []string{"dev", "server", "agent", "bench", "login", "context", "completion", "watchdog"}
	for _, line := range helpExamples(t) {
		args := strings.Fields(line)
		if slices.Contains(local, args[0]) || strings.HasPrefix(line, "node doctor") || strings.HasPrefix(line, "admin certificate") || strings.ContainsAny(line, "$>|'\"") {
			continue
		}
		before := dialed.Load()
		var said strings.Builder
		Main(args, cmdutil.Outside{In: strings.NewReader(""), Out: &said, Err: &said, Getenv: func(name string) string { return env[name] }, Executable: os.Executable})
		if dialed.Load() != before {
			t.Errorf("escher %s dials etcd", line)
		}
		if strings.Contains(said.String(), "needs etcd itself") {
			direct = append(direct, strings.Join(args[:min(len(args), 2)], " "))
		}
	}
	slices.Sort(direct)
	if got := strings.Join(slices.Compact(direct), ", "); got != "admin restored, audit --repair, policies log" {
		t.Errorf("these need etcd itself: %s", got)
	}
	if asked.Load() < 100 {
		t.Errorf("the server was asked %d times", asked.Load())
	}
}

// helpExamples returns the examples in the help of all commands, without the name of the program.
func helpExamples(t *testing.T) (all []string) {
	t.Helper()
	for _, cmd := range everyCommand(newRoot(&cmdutil.Factory{})) {
		for line := range strings.Lines(cmd.Long) {
			if line, ok := strings.CutPrefix(line, "  escher "); ok {
				line, _, _ = strings.Cut(strings.TrimSpace(line), "   ")
				all = append(all, line)
			}
		}
	}
	if len(all) < 100 {
		t.Errorf("found %d examples", len(all))
	}
	return all
}
