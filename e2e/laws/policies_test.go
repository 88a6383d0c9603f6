package laws

import (
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/escher-sched/escher/esl/builtin"
)

// maxPolicy is the most lines of a policy beyond its family's engine, without blank lines and comments. Its own
// are all files that mention its type: they have its parameters, its decisions and its reasons. The engine is
// what these use of the rest of the package. It does not know the policy, and so another one can use it.
const maxPolicy = 100

// olderPolicies are the kinds that may be longer.
func olderPolicies() []string {
	return []string{
		"after", "aging", "apart", "balance", "barrier", "colocate", "elastic-balance", "gang", "limit", "objective", "pack", "preempt", "prefer",
		"queue", "semaphore", "spread", "stay", "use",
	}
}

// policyFiles lists the other policies: the file that is the policy's own, and those of its engine.
func policyFiles() map[string][]string {
	return map[string][]string{
		"earliest-deadline": {"turn/earliest.go", "raise.go"},
		"elastic":           {"room/elastic.go", "clear.go", "clear_victims.go", "clear_where.go", "elastic_core.go", "elastic_giveway.go", "stay.go"},
		"estimate":          {"estimate/estimate.go", "figures.go"},
		"fair-queue":        {"admission/fairqueue.go", "flows.go", "gate.go", "line.go", "opening.go"},
		"fair-share":        {"share/fairshare.go", "census.go", "drf.go", "lender.go", "next.go", "pools.go", "reclaim.go", "room.go", "tree.go", "turns.go", "why.go"},
		"interleave":        {"place/interleave.go", "assign.go", "common.go", "domain.go", "limits.go", "phases.go", "placing.go", "sharing.go"},
		"least-attained":    {"room/least_attained.go", "attained.go", "clear.go", "clear_victims.go", "clear_where.go", "making.go", "preempt_wish.go", "ranked.go", "stay.go"},
		"migrate":           {"room/migrate.go", "clear.go", "clear_victims.go", "clear_where.go", "fewer.go", "migrate_ask.go", "migrate_homes.go", "migrate_next.go", "stay.go"},
		"near":              {"place/near.go", "common.go", "data.go", "delay.go"},
		"oversubscribe":     {"lend/oversubscribe.go", "lend.go", "surplus.go"},
		"quiet":             {"quiet/quiet.go", "admit.go", "learn.go", "world.go"},
		"reserve-ahead":     {"ahead/ahead.go", "soonest.go"},
		"shortest":          {"turn/shortest.go", "raise.go"},
	}
}

// engineTests lists the files of engines that one policy uses so far, with a test of what each does.
func engineTests() map[string]string {
	return map[string]string{
		"admission/flows.go":      "TestFlowsTakeTurns",
		"ahead/soonest.go":        "TestSoonest",
		"estimate/figures.go":     "TestEstimated",
		"lend/lend.go":            "TestExactly",
		"lend/surplus.go":         "TestSurplus",
		"place/data.go":           "TestDataset",
		"place/delay.go":          "TestSteps",
		"place/phases.go":         "TestGain",
		"place/sharing.go":        "TestSeatGivenUp",
		"quiet/admit.go":          "TestKeepsApart",
		"quiet/learn.go":          "TestCounts",
		"quiet/world.go":          "TestSlugs",
		"room/attained.go":        "TestAttainedQueues",
		"room/elastic_core.go":    "TestCore",
		"room/elastic_giveway.go": "TestWaiters",
		"room/fewer.go":           "TestOnFewer",
		"room/migrate_ask.go":     "TestMigrateAsks",
		"room/migrate_homes.go":   "TestMigrateThroughGates",
		"room/migrate_next.go":    "TestMigrateRollsBack",
		"room/ranked.go":          "TestRanked",
		"share/census.go":         "TestFairShareOfWhatWaits",
		"share/drf.go":            "TestShareOut",
		"share/lender.go":         "TestReclaimNoMoreThanNeeded",
		"share/next.go":           "TestFairShareDominant",
		"share/pools.go":          "TestPools",
		"share/reclaim.go":        "TestEnough",
		"share/room.go":           "TestRoomIsMadeWhereItIsSoonest",
		"share/tree.go":           "TestTree",
		"share/turns.go":          "TestFairShareEvens",
		"share/why.go":            "TestFairShareWhy",
	}
}

// TestPolicyLines counts the lines of policies, and compares their files with the tables.
func TestPolicyLines(t *testing.T) {
	all, err := packages.Load(&packages.Config{
		Dir:  root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports,
	}, "./esl/...")
	if err != nil {
		t.Fatal(err)
	}
	users := make(map[string][]string) // of files of engines, by kind
	for _, p := range builtin.Policies() {
		kind, of := p.Kind(), reflect.TypeOf(p)
		want, listed := policyFiles()[kind]
		if slices.Contains(olderPolicies(), kind) == listed {
			t.Errorf("policy %s is in both of olderPolicies and policyFiles, or in neither: list it once", kind)
		}
		at := slices.IndexFunc(all, func(x *packages.Package) bool { return x.PkgPath == of.PkgPath() })
		dir := path.Base(of.PkgPath())
		own := mentions(all[at], of.Name())
		engine := engineOf(uses(all[at]), own)
		for _, file := range engine {
			users[path.Join(dir, file)] = append(users[path.Join(dir, file)], kind)
		}
		if !listed {
			continue
		}
		if got := append([]string{path.Join(dir, strings.Join(own, " "))}, engine...); !slices.Equal(got, want) {
			t.Errorf("policy %s: its own file and its engine are %q, and policyFiles has %q: correct that, or have the engine not mention the policy", kind, got, want)
		}
		lines := 0
		for _, file := range own {
			lines += codeLines(t, filepath.Join(root, "esl", dir, file))
		}
		if t.Logf("%-18s %3d lines", kind, lines); lines > maxPolicy {
			t.Errorf("policy %s has %d lines of its own, and at most %d are allowed: give what others could use a name in its engine", kind, lines, maxPolicy)
		}
	}
	checkEngines(t, users)
}

// checkEngines checks that two policies use each file of an engine, or that there is a test of it. users are
// the policies by file.
func checkEngines(t *testing.T, users map[string][]string) {
	t.Helper()
	tests := engineTests()
	for _, file := range slices.Sorted(maps.Keys(users)) {
		kinds := users[file]
		switch name, listed := tests[file]; {
		case len(kinds) > 1 && listed:
			t.Errorf("%s is used by %q: drop it from engineTests", file, kinds)
		case len(kinds) == 1 && !slices.Contains(olderPolicies(), kinds[0]) && !hasTest(t, path.Dir(file), name):
			t.Errorf("%s is used by %s alone, and its test %q is not there: write one, and list it in engineTests", file, kinds[0], name)
		}
		delete(tests, file)
	}
	for file := range tests {
		t.Errorf("%s is in engineTests, and no policy uses it: remove it", file)
	}
}

// mentions returns the files of a package that mention a type of it, sorted.
func mentions(p *packages.Package, name string) (files []string) {
	of := p.Types.Scope().Lookup(name)
	for _, f := range p.Syntax {
		found := false
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			found = found || ok && (p.TypesInfo.Uses[id] == of || p.TypesInfo.Defs[id] == of)
			return !found
		})
		if found {
			files = append(files, filepath.Base(p.Fset.Position(f.Package).Filename))
		}
	}
	slices.Sort(files)
	return files
}

// engineOf returns the files that some files use, directly or not, sorted.
func engineOf(graph map[string][]string, own []string) (engine []string) {
	next := slices.Clone(own)
	for len(next) > 0 {
		file := next[0]
		next = next[1:]
		for _, other := range graph[file] {
			if !slices.Contains(own, other) && !slices.Contains(engine, other) {
				engine, next = append(engine, other), append(next, other)
			}
		}
	}
	slices.Sort(engine)
	return engine
}

// codeLines counts the lines of a file without blank ones and comments.
func codeLines(t *testing.T, file string) (n int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

// hasTest reports whether a directory has a test.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "esl", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {")
	})
}
