package laws

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/escher-sched/escher/"

// room is a directory of the module with everything below it.
type room struct {
	dir string
	// own lists the rooms it may import, besides itself.
	own []string
	// tests lists further rooms that its external tests may import.
	tests []string
	// helpers lists further rooms that all its tests may import.
	helpers []string
	// later reports whether it does not exist yet.
	later bool
}

// rooms is the order of the house: types ← controlplane ← {scheduler, nodeagent,
// esl} ← api ← the rest. The three never import one another: they meet in the store.
func rooms() []room {
	return []room{
		{dir: "types"},
		{dir: "controlplane", own: []string{"types"}},
		{dir: "scheduler", own: []string{"types", "controlplane"}},
		{dir: "nodeagent", own: []string{"types", "controlplane"}},
		{dir: "esl", own: []string{"types", "controlplane"}, tests: []string{"e2e/hollow", "e2e/esltest"}, helpers: []string{"e2e/viewtest"}},
		{dir: "api", own: []string{"types", "controlplane", "scheduler", "nodeagent", "esl"}, tests: []string{"e2e/hollow"}},
	}
}

// families are the packages of policies below esl. A family knows esl and what tasks have in
// common, and no other family: policies compose through the resources that tasks request.
func families() []string {
	return []string{"esl/admission", "esl/ahead", "esl/estimate", "esl/gang", "esl/lend", "esl/place", "esl/quiet", "esl/room", "esl/share", "esl/turn"}
}

// library lists the packages of esl that each package of esl may import.
func library() map[string][]string {
	all := map[string][]string{
		"esl":           {},
		"esl/taskset":   {"esl"},
		"esl/collect":   {},
		"esl/keep":      {"esl", "esl/collect", "esl/decisions"},
		"esl/decisions": {"esl"},
		"esl/apply":     {"esl"},
		"esl/builtin":   append([]string{"esl"}, families()...),
	}
	for _, f := range families() {
		all[f] = []string{"esl", "esl/taskset"}
	}
	return all
}

// ban keeps packages out of the whole module except some rooms.
type ban struct {
	// pkg is the banned package, with everything below it.
	pkg string
	// direct lists the rooms that may import it.
	direct []string
	// linked lists further rooms that may import it indirectly; nil means all.
	linked []string
	why    string
}

func bans() []ban {
	programs := []string{"cmd", "e2e", "examples"}
	fake := "the shipped binary carries no fakes, examples or games"
	return []ban{
		{pkg: module + "e2e", direct: []string{"e2e"}, linked: []string{"e2e"}, why: fake},
		{pkg: module + "examples", direct: []string{"e2e", "examples"}, linked: []string{"e2e", "examples"}, why: fake},
		{pkg: module + "controlplane/memstore", direct: []string{"e2e"}, linked: []string{"e2e"}, why: fake},
		{pkg: module + "nodeagent/runtime/simruntime", direct: []string{"e2e"}, linked: []string{"e2e"}, why: fake},
		{
			pkg: "go.etcd.io/etcd/server/v3", direct: []string{"controlplane/server"}, linked: programs,
			why: "everything else is a client, so that etcd can be anywhere",
		},
		{
			pkg: module + "controlplane/server", direct: programs, linked: programs,
			why: "who needs a store is given one",
		},
		{
			pkg: "go.etcd.io/etcd/client/v3", direct: []string{"controlplane/etcdstore", "controlplane/server"},
			why: "the store is reached through controlplane.Store",
		},
		{
			pkg: "github.com/containerd/containerd/v2", direct: []string{"nodeagent/runtime/containerd", "e2e/bench"},
			why: "containers are run through nodeagent.Runtime; only the floor under it is measured without",
		},
		{
			pkg: "math/rand", direct: []string{},
			why: "math/rand/v2 has sources that are passed in",
		},
	}
}

// banned lists what a room must not import, even indirectly.
func banned() map[string][]string {
	return map[string][]string{
		"types": {"go.etcd.io/etcd", "go.uber.org/zap", "google.golang.org/grpc", "os/exec", "net/http"},
		"esl":   {"github.com/spf13"}, // flags of policies are data
	}
}

// pkg is a package as go list describes it.
type pkg struct {
	Name         string
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// list returns the packages of the module, and the paths of all their dependencies.
func list(t *testing.T) (own []pkg, all []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Name,ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = root
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &problems)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return own, all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, p.ImportPath)
		if strings.HasPrefix(p.ImportPath, module) {
			own = append(own, p)
		}
	}
}

// below reports whether a package is pkg, or in a directory below it.
func below(path, pkg string) bool { return path == pkg || strings.HasPrefix(path, pkg+"/") }

// in reports whether a package of the module is in one of the rooms.
func in(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return below(path, module+dir) })
}

// all returns the imports of a package and its tests, except the allowed ones of tests.
func (p pkg) all(r room) []string {
	outside := slices.DeleteFunc(slices.Clone(p.XTestImports), func(i string) bool { return in(i, r.tests) })
	tests := slices.DeleteFunc(slices.Concat(p.TestImports, outside), func(i string) bool { return in(i, r.helpers) })
	return slices.Concat(p.Imports, tests)
}

// arrows returns the forbidden imports between rooms.
func arrows(own []pkg, rooms []room) []string {
	var wrong []string
	for _, r := range rooms {
		allowed := append([]string{r.dir}, r.own...)
		for _, p := range own {
			if !below(p.ImportPath, module+r.dir) {
				continue
			}
			for _, imported := range p.all(r) {
				if strings.HasPrefix(imported, module) && !in(imported, allowed) {
					wrong = append(wrong, p.ImportPath+" imports "+imported+": "+r.dir+" may import only "+strings.Join(allowed, ", "))
				}
			}
		}
	}
	return wrong
}

// mixed returns the forbidden imports within esl. Tests may combine families.
func mixed(own []pkg, library map[string][]string) []string {
	var wrong []string
	for _, p := range own {
		if !below(p.ImportPath, module+"esl") {
			continue
		}
		allowed, known := library[strings.TrimPrefix(p.ImportPath, module)]
		if !known {
			wrong = append(wrong, p.ImportPath+" is not in the table of packages of esl: add it")
		}
		for _, imported := range p.Imports {
			if below(imported, module+"esl") && !slices.Contains(allowed, strings.TrimPrefix(imported, module)) {
				wrong = append(wrong, p.ImportPath+" imports "+imported+": it may import only "+strings.Join(allowed, ", "))
			}
		}
	}
	return wrong
}

// forbidden returns the imports that a ban forbids. Tests may start parts that their package does
// not know.
func forbidden(own []pkg, bans []ban) []string {
	var wrong []string
	for _, b := range bans {
		for _, p := range own {
			if !in(p.ImportPath, b.direct) && slices.ContainsFunc(p.Imports, func(i string) bool { return matches(i, b.pkg) && !same(p.ImportPath, b.pkg) }) {
				wrong = append(wrong, p.ImportPath+" imports "+b.pkg+": "+b.why)
			}
			if b.linked != nil && !in(p.ImportPath, b.direct) && !in(p.ImportPath, b.linked) &&
				slices.ContainsFunc(p.Deps, func(d string) bool { return matches(d, b.pkg) && !same(p.ImportPath, b.pkg) }) {
				wrong = append(wrong, p.ImportPath+" links "+b.pkg+": "+b.why)
			}
		}
	}
	return wrong
}

// matches is below, except for math/rand, whose v2 is another package.
func matches(path, pkg string) bool { return below(path, pkg) && path != pkg+"/v2" }

// same reports whether a package is part of a banned one.
func same(path, pkg string) bool { return below(path, pkg) }

func TestArrows(t *testing.T) {
	own, _ := list(t)
	for _, w := range slices.Concat(arrows(own, rooms()), mixed(own, library())) {
		t.Error(w)
	}
}

func TestBans(t *testing.T) {
	own, _ := list(t)
	for _, w := range forbidden(own, bans()) {
		t.Error(w)
	}
	for dir, pkgs := range banned() {
		for _, p := range own {
			for _, b := range pkgs {
				if below(p.ImportPath, module+dir) && slices.ContainsFunc(p.Deps, func(d string) bool { return below(d, b) }) {
					t.Errorf("%s links %s: nothing in %s may", p.ImportPath, b, dir)
				}
			}
		}
	}
}

// TestTestingIsForTests keeps package testing, and its flags, out of programs.
func TestTestingIsForTests(t *testing.T) {
	own, _ := list(t)
	for _, p := range own {
		if slices.Contains(p.Imports, "testing") && !strings.HasSuffix(p.ImportPath, "test") {
			t.Errorf("%s imports testing: move what needs it to a package named …test", p.ImportPath)
		}
	}
}

// TestTablesAreAlive finds rules about missing packages: they forbid nothing, and hide that a
// package returned under another name.
func TestTablesAreAlive(t *testing.T) {
	_, all := list(t)
	there := func(pkg string) bool {
		return slices.ContainsFunc(all, func(p string) bool { return below(p, pkg) })
	}
	for _, r := range rooms() {
		if there(module+r.dir) == r.later {
			t.Errorf("room %s: later is %t, correct the table", r.dir, r.later)
		}
	}
	for dir := range library() {
		if !slices.Contains(all, module+dir) {
			t.Errorf("%s is in the table of packages of esl, but is not there: correct the table", dir)
		}
	}
	for _, b := range bans() {
		if !there(b.pkg) && b.pkg != "math/rand" {
			t.Errorf("%s is banned, but nothing of that name is there: correct the table", b.pkg)
		}
		for _, dir := range b.direct {
			if !there(module+dir) && !slices.Contains([]string{"cmd", "e2e", "examples"}, dir) {
				t.Errorf("%s is allowed in %s, which is not there: correct the table", b.pkg, dir)
			}
		}
	}
}

// TestRulesFind: the rules find their violations.
func TestRulesFind(t *testing.T) {
	own := []pkg{
		{ImportPath: module + "scheduler", Imports: []string{module + "nodeagent"}},
		{ImportPath: module + "types", TestImports: []string{module + "controlplane"}},
		{ImportPath: module + "controlplane", Imports: []string{"math/rand/v2", module + "types"}},
		{ImportPath: module + "esl", TestImports: []string{module + "e2e/hollow"}, XTestImports: []string{module + "e2e/hollow", module + "e2e/sim"}},
		{ImportPath: module + "nodeagent", Imports: []string{"math/rand"}, Deps: []string{"go.etcd.io/etcd/server/v3/embed"}},
		{ImportPath: module + "cmd/escher", Imports: []string{module + "controlplane/server"}, Deps: []string{"go.etcd.io/etcd/server/v3/embed"}},
		{ImportPath: module + "controlplane/server", Imports: []string{"go.etcd.io/etcd/server/v3/embed"}},
		{ImportPath: module + "controlplane/etcdstore", Imports: []string{"go.etcd.io/etcd/server/v3/embed"}},
	}
	wantPrefixes(t, arrows(own, rooms()), "types imports "+module+"controlplane", "scheduler imports "+module+"nodeagent",
		"esl imports "+module+"e2e/hollow", "esl imports "+module+"e2e/sim")
	wantPrefixes(t, mixed([]pkg{
		{ImportPath: module + "esl", Imports: []string{module + "esl/gang"}},
		{ImportPath: module + "esl/gang", Imports: []string{module + "esl", module + "esl/taskset", module + "esl/place"}, XTestImports: []string{module + "esl/room"}},
		{ImportPath: module + "esl/fresh", Imports: []string{module + "types"}},
		{ImportPath: module + "cmd/escher", Imports: []string{module + "esl/gang"}},
	}, library()), "esl imports "+module+"esl/gang", "esl/gang imports "+module+"esl/place", "esl/fresh is not in the table")
	wantPrefixes(t, forbidden(own, bans()),
		"controlplane/etcdstore imports go.etcd.io/etcd/server", "nodeagent links go.etcd.io/etcd/server", "nodeagent imports math/rand")
}

func wantPrefixes(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	ok := slices.EqualFunc(got, want, func(g, w string) bool { return strings.HasPrefix(g, module+w) })
	if !ok {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
