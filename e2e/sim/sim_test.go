package sim

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"
)

// steps is the length of a run: enough to submit a thousand tasks.
const steps = 4000

// lengthOf is the number of steps of a seed: two of three seeds submit about 400 tasks alone, so
// that there is time for more seeds.
func lengthOf(seed uint64) int {
	if seed%3 == 0 {
		return steps
	}
	return steps * 2 / 5
}

// settings select the seeds; -sim.seeds or SIM_SEEDS sets their number. A failing seed runs again with
// -sim.seed n or SIM_SEED=n, and a script of it with SIM_SCRIPT=file in addition.
type settings struct {
	seed, seeds uint64
	script      string
	// shrink bounds the time for shortening a failing run.
	shrink time.Duration
}

// seeds is the default number of seeds; make seeds runs more, without the race detector.
const seeds = 4

func TestMain(m *testing.M) {
	flag.Uint64("sim.seed", 0, "the first seed to run; alone, the only one")
	flag.Uint64("sim.seeds", 0, "how many seeds to run")
	flag.Duration("sim.shrink", 20*time.Second, "how long to make a failing run shorter for")
	flag.Parse()
	// Runs make much garbage and keep little.
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// chosen returns the settings of flags and environment.
func chosen(t *testing.T) settings {
	t.Helper()
	get := func(name string) any { return flag.Lookup(name).Value.(flag.Getter).Get() }
	s := settings{seed: get("sim.seed").(uint64), seeds: get("sim.seeds").(uint64), shrink: get("sim.shrink").(time.Duration)}
	for name, field := range map[string]*uint64{"SIM_SEED": &s.seed, "SIM_SEEDS": &s.seeds} {
		text := os.Getenv(name)
		if text == "" || *field != 0 {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		*field = n
	}
	switch {
	case s.seed == 0:
		s.seed, s.seeds = 1, cmp.Or(s.seeds, seeds)
	case s.seeds == 0:
		s.seeds = 1
	}
	s.script = os.Getenv("SIM_SCRIPT")
	return s
}

// configOf is the cluster of a seed: two or four schedulers that race for everything or, in some,
// share it; and sometimes one, whose mistakes no other corrects.
func configOf(seed uint64) Config {
	return Config{
		Seed: seed, Nodes: 6, Tasks: 1000,
		Schedulers: []int{2, 4, 2, 4, 1}[seed%5],
		Shared:     seed%7 == 6,
		Gather:     []int{1, 1, 1, 6}[seed%4],
		Ops:        []int{0, 0, 24}[seed%3],
	}
}

// TestSeeds runs 400 to a thousand tasks through two or four racing schedulers and random faults, for
// every seed.
func TestSeeds(t *testing.T) {
	s := chosen(t)
	if s.script != "" {
		replay(t, s)
		return
	}
	var mu sync.Mutex
	all := make(map[string]int)
	t.Run("half", func(t *testing.T) {
		for half := range uint64(2) {
			t.Run(strconv.Itoa(int(half)), func(t *testing.T) {
				t.Parallel()
				for seed := s.seed + half; seed < s.seed+s.seeds && !t.Failed(); seed += 2 {
					seen := one(t, seed, s.shrink)
					mu.Lock()
					for what, n := range seen {
						all[what] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	if s.seeds >= 100 {
		checkCoverage(t, all)
	}
}

// one runs a seed and, if it fails, prints it as a script shortened within some time.
func one(t *testing.T, seed uint64, shrink time.Duration) map[string]int {
	t.Helper()
	cfg, all := configOf(seed), Steps(seed, lengthOf(seed))
	f, seen := Run(cfg, all, nil)
	if f != nil {
		t.Errorf("seed %d: %v\nagain: go test ./e2e/sim -run TestSeeds -sim.seed %d", seed, f, seed)
		end := time.Now().Add(shrink)
		shorter, _ := Shrink(cfg, all, f, func() bool { return time.Now().Before(end) })
		t.Logf("shorter, to be run with SIM_SEED=%d SIM_SCRIPT=file:\n%s", seed, Script(cfg, shorter))
	}
	return seen
}

// replay runs a script in the cluster of its seed.
func replay(t *testing.T, s settings) {
	t.Helper()
	text, err := os.ReadFile(s.script)
	if err != nil {
		t.Fatal(err)
	}
	script, err := ParseScript(string(text))
	if err != nil {
		t.Fatal(err)
	}
	cfg := configOf(s.seed)
	if f, _ := Run(cfg, script, nil); f != nil {
		t.Errorf("%v\n%s", f, Script(cfg, script))
	}
}

// checkCoverage fails if an event that the runs should cover never happened.
func checkCoverage(t *testing.T, seen map[string]int) {
	t.Helper()
	for _, what := range []string{
		"binds", "binds amid faults", "binds to pools", "binds to reservations", "binds to devices", "binds by later alternatives",
		"binds to ports", "binds to a pinned image", "tasks in trouble", "tasks run again", "tasks overdue", "told to leave", "machines declared dead",
		"binds to resources x", "binds to resources p", "binds to resources s",
		"grants collecting", "grants collecting later", "grants granted", "grants granted later", "grants releasing later",
		"grants directed", "grants directed later", "grants handed-over later",
		"tasks running", "tasks succeeded", "tasks failed", "tasks cancelled",
		"tasks pending again: failed", "tasks pending again: evicted", "tasks pending again: lost", "tasks pending again: fenced",
		"behind another: committed=true", "behind another: committed=false", "behind another: before its answer",
		"refused", "recognised", "late copies committed", "reloads", "collected of a job", "waits before what collects",
	} {
		t.Logf("%8d %s", seen[what], what)
		if seen[what] < 10 {
			t.Errorf("%s: only %d times", what, seen[what])
		}
	}
}

func TestScriptIsReadAsItIsPrinted(t *testing.T) {
	for _, s := range Steps(1, 200) {
		got, err := ParseScript(fmt.Sprintf("# text\n  %s  # what happened\n\n", s))
		if err != nil || len(got) != 1 || got[0] != s {
			t.Errorf("%v was read as %v, %v", s, got, err)
		}
	}
	for _, text := range []string{"tick 1", "what 1 2", "tick one 2"} {
		if got, err := ParseScript(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestARunIsItsSeed(t *testing.T) {
	cfg, all := configOf(3), Steps(3, 1500)
	if a, b := Script(cfg, all), Script(cfg, all); a != b {
		t.Error("the same seed gave two runs")
	}
}

func TestShrink(t *testing.T) {
	var cfg Config
	var all []Step
	var f *Failure
	for seed := uint64(0); f == nil && seed < 20; seed++ {
		cfg, all = configOf(seed), Steps(seed, steps)
		cfg.Unguarded = races()[0].unguarded(t)
		f, _ = Run(cfg, all, nil)
	}
	if f == nil {
		t.Fatal("it does not fail")
	}
	tries := 0
	shorter, again := Shrink(cfg, all, f, func() bool { tries++; return tries < 200 })
	if again == nil || len(shorter) > f.Step/4 {
		t.Errorf("%d steps became %d, which fail with %v", f.Step, len(shorter), again)
	}
}
