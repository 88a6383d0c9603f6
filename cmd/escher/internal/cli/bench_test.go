package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/server"
	"github.com/escher-sched/escher/e2e/bench"
)

// TestMain lets the test program act as the benchmark program, and as escher in scripts, by its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == server.BenchProgram {
		os.Exit(bench.Main(os.Args[1:], os.Executable, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestBench lets the benchmark program refuse bad input: it gets all arguments of escher bench.
func TestBench(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, empty := t.TempDir(), t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, server.BenchProgram)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args, dir string
		code      int
		says      string
	}{
		{"", dir, 0, `(?s)SCENARIO +MEASURES\nbind +tasks a second.*alphazero`},
		{"--scenario fast", dir, 2, `scenario: "fast" is unknown: use bind, ephemeral, .* or all`},
		{"--scenario bind --rounds -1", dir, 2, `rounds -1: each must be at least 1`},
		{"--scenario bind --data none", dir, 2, `dir: "none" cannot be looked at`},
		{"--scenario bind --ops 100", dir, 2, `ops: 100 is less than etcd's own 128`},
		{"--scenario bind --data /dev/shm", dir, 2, `is in memory: name a directory on a disk`},
		{"--trace none --data .", dir, 3, `trace: none has neither nodes.csv nor nodes.csv.gz`},
		{"--trace none --scenario bind", dir, 2, `trace: .* give one of them`},
		{"--scenario bind", empty, 6, `escher-bench: no such file or directory: make build in the source builds it`},
		{"", empty, 6, `escher-bench: no such file or directory: make build in the source builds it`},
	} {
		var out strings.Builder
		args := append([]string{"bench"}, strings.Fields(test.args)...)
		code := Main(args, cmdutil.Outside{Out: &out, Err: &out, Getenv: os.Getenv, Executable: func() (string, error) { return filepath.Join(test.dir, "escher"), nil }})
		if code != test.code || !regexp.MustCompile(test.says).MatchString(out.String()) {
			t.Errorf("escher bench %s: exit code %d, want %d: %s", test.args, code, test.code, &out)
		}
	}
}
