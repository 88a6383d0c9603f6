package faults

import (
	"flag"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
)

// seeds is the number of seeds that run by default; make seeds runs more, without the race
// detector.
const seeds = 8

func TestMain(m *testing.M) {
	flag.Uint64("faults.seed", 0, "the first seed to run; alone, the only one")
	flag.Uint64("faults.seeds", 0, "the number of seeds to run")
	flag.Parse()
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// chosen returns the seeds of flags and environment.
func chosen(t *testing.T) (first, n uint64) {
	t.Helper()
	get := func(name string) uint64 { return flag.Lookup(name).Value.(flag.Getter).Get().(uint64) }
	first, n = get("faults.seed"), get("faults.seeds")
	if text := os.Getenv("FAULTS_SEED"); text != "" {
		var err error
		if first, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("FAULTS_SEED: %v", err)
		}
	}
	switch {
	case first == 0 && n == 0:
		return 1, seeds
	case n == 0:
		return first, 1
	}
	return max(first, 1), n
}

// logger writes what components log to the file FAULTS_LOG, if that is set.
func logger(t *testing.T) *zap.Logger {
	t.Helper()
	path := os.Getenv("FAULTS_LOG")
	if path == "" {
		return zap.NewNop()
	}
	cfg := zap.NewDevelopmentConfig()
	cfg.OutputPaths = []string{path}
	log, err := cfg.Build()
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// TestSeeds runs the cluster under faults, from each seed: every guarantee holds at every
// revision, and at rest everything that can be done is done.
func TestSeeds(t *testing.T) {
	first, n := chosen(t)
	for seed := first; seed < first+n; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				r := Run(Config{Seed: seed, Dir: dir, Log: logger(t), Changes: seed%4 == 0})
				if len(r.Findings) > 0 || testing.Verbose() {
					t.Logf("history:\n%s", strings.Join(r.History, "\n"))
				}
				if len(r.Findings) > 0 {
					t.Errorf("seed %d:\n%s", seed, strings.Join(r.Findings, "\n"))
				}
			})
		})
	}
}

// TestPlanted checks that no random id looks like that of a planted key.
func TestPlanted(t *testing.T) {
	for key, want := range map[string]bool{
		controlplane.TaskKey("b", junk+"5"):              true,
		controlplane.AliveKey(junk + "12"):               true,
		controlplane.TaskKey("b", "task-d7kz4xjunk.0"):   false,
		controlplane.PoliciesKey("b", "task-d7kz4xjunk"): false,
	} {
		if got := planted(key); got != want {
			t.Errorf("%s: got %t, want %t", key, got, want)
		}
	}
}
