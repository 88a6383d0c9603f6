package laws

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// The limits of a package. A reader has to know every file of a circle to understand any one of
// them; by that measure, ten to twenty files are usual in etcd, containerd and raft.
const (
	maxCircle = 20
	maxFiles  = 40
	maxLines  = 6000
)

// maxInterfaces is the target number of exported interfaces in the tree: most code needed twice is
// a function, or a struct.
const maxInterfaces = 15

// size is the measured size of a package, without its tests.
type size struct {
	// circle is the number of files in the largest circle of files that use one another.
	circle, files, lines int
}

// ceilings are the packages beyond the limits, with their allowed size: the current one. There are
// none. A ceiling only goes down. Lines are rounded up to hundreds.
func ceilings() map[string]size {
	return map[string]size{}
}

// interfacesCeiling is the current number of exported interfaces. It only goes down.
const interfacesCeiling = 15

// testedPercent is the number of lines of tests per 100 lines of source. It only goes up, to 80:
// above all by less source.
const testedPercent = 80

// TestTested counts lines of tests. Text scripts are tests, and so is every package that no program
// for users links: the simulations, the conformance suites, and what tests run in containers.
func TestTested(t *testing.T) {
	own, _ := list(t)
	source := linkedBy(own, "cmd", "e2e/bench/escher-bench", "examples")
	tests, rest := scripts(t), 0
	for _, s := range sources(t) {
		n := s.fset.File(s.file.FileStart).LineCount()
		if s.test() || !source[module+path.Dir(s.path)] {
			tests += n
		} else {
			rest += n
		}
	}
	switch percent := 100 * tests / rest; {
	case percent < testedPercent:
		t.Errorf("%d lines of tests for 100 lines of source, less than the %d there were: test what is new", percent, testedPercent)
	case percent > testedPercent+2 && testedPercent < 80:
		t.Errorf("%d lines of tests for 100 lines of source: raise testedPercent from %d", percent, testedPercent)
	}
}

// linkedBy returns the packages of the module that the programs in some directories link.
func linkedBy(own []pkg, dirs ...string) map[string]bool {
	linked := make(map[string]bool)
	for _, p := range own {
		if p.Name != "main" || !in(p.ImportPath, dirs) {
			continue
		}
		linked[p.ImportPath] = true
		for _, dep := range p.Deps {
			linked[dep] = true
		}
	}
	return linked
}

// scripts returns the number of lines of the text scripts of commands.
func scripts(t *testing.T) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "cmd/escher/internal/cli/testdata/*.txtar"))
	if err != nil || len(found) == 0 {
		t.Fatalf("text scripts: %d, %v", len(found), err)
	}
	lines := 0
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(text, []byte("\n"))
	}
	return lines
}

// measured is the module with its types, without tests.
func measured(t *testing.T) []*packages.Package {
	t.Helper()
	all, err := packages.Load(&packages.Config{
		Dir:  root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports,
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		for _, e := range p.Errors {
			t.Errorf("load %s: %v", p.PkgPath, e)
		}
	}
	return all
}

// measure returns the size of a package.
func measure(p *packages.Package) size {
	var s size
	for _, f := range p.Syntax {
		if ast.IsGenerated(f) {
			continue
		}
		s.files++
		s.lines += p.Fset.Position(f.FileEnd).Line
	}
	for _, c := range circles(uses(p)) {
		s.circle = max(s.circle, len(c))
	}
	return s
}

// generatedFiles returns the names of the generated files of a package.
func generatedFiles(p *packages.Package) map[string]bool {
	names := make(map[string]bool)
	for _, f := range p.Syntax {
		if ast.IsGenerated(f) {
			names[p.Fset.Position(f.Package).Filename] = true
		}
	}
	return names
}

// uses returns, for each file of a package, the files that declare the types, functions, methods,
// fields, constants and variables of the package that it uses.
func uses(p *packages.Package) map[string][]string {
	used := make(map[string]map[string]bool)
	for _, f := range p.Syntax {
		used[p.Fset.Position(f.Package).Filename] = make(map[string]bool)
	}
	for id, obj := range p.TypesInfo.Uses {
		if obj.Pkg() != p.Types {
			continue
		}
		if v, ok := obj.(*types.Var); obj.Parent() != p.Types.Scope() && obj.Parent() != nil || ok && !v.IsField() && obj.Parent() != p.Types.Scope() {
			continue // local
		}
		from, to := p.Fset.Position(id.Pos()).Filename, p.Fset.Position(obj.Pos()).Filename
		if from != to && used[from] != nil && used[to] != nil {
			used[from][to] = true
		}
	}
	out := make(map[string][]string)
	for file, to := range used {
		out[filepath.Base(file)] = nil
		for other := range to {
			out[filepath.Base(file)] = append(out[filepath.Base(file)], filepath.Base(other))
		}
	}
	return out
}

// circles returns the strongly connected components of a graph, by Tarjan's algorithm
// (SIAM J. Comput. 1(2), 1972).
func circles(graph map[string][]string) [][]string {
	var all [][]string
	var stack []string
	index, low, on := make(map[string]int), make(map[string]int), make(map[string]bool)
	var visit func(n string)
	visit = func(n string) {
		index[n] = len(index) + 1
		low[n] = index[n]
		stack = append(stack, n)
		on[n] = true
		for _, m := range graph[n] {
			if index[m] == 0 {
				visit(m)
				low[n] = min(low[n], low[m])
			} else if on[m] {
				low[n] = min(low[n], index[m])
			}
		}
		if low[n] != index[n] {
			return
		}
		at := slices.Index(stack, n)
		all = append(all, slices.Clone(stack[at:]))
		for _, m := range stack[at:] {
			on[m] = false
		}
		stack = stack[:at]
	}
	for _, n := range slices.Sorted(maps.Keys(graph)) {
		if index[n] == 0 {
			visit(n)
		}
	}
	return all
}

// TestCircles finds circles.
func TestCircles(t *testing.T) {
	got := circles(map[string][]string{"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": nil, "f": {"f", "a"}})
	for _, c := range got {
		slices.Sort(c)
	}
	slices.SortFunc(got, slices.Compare)
	if want := "[[a b c] [d] [e] [f]]"; fmt.Sprint(got) != want {
		t.Errorf("circles are %v, want %s", got, want)
	}
}

// within returns the violations of a package's size limits, or of its ceiling. A ceiling higher
// than needed is wrong, too.
func within(name string, s, ceiling size) []string {
	s.lines = (s.lines + 99) / 100 * 100
	var wrong []string
	for _, x := range []struct {
		what            string
		is, most, limit int
		unit            string
	}{
		{"the largest circle of files", s.circle, ceiling.circle, maxCircle, "files"},
		{"the package", s.files, ceiling.files, maxFiles, "files"},
		{"the package", s.lines, ceiling.lines, maxLines, "lines"},
	} {
		allowed := max(x.most, x.limit)
		switch {
		case x.is > allowed:
			wrong = append(wrong, fmt.Sprintf("%s: %s has %d %s, and may have %d: split it", name, x.what, x.is, x.unit, allowed))
		case x.most > 0 && x.is < x.most && x.most > x.limit:
			wrong = append(wrong, fmt.Sprintf("%s: %s has %d %s: lower the ceiling of %d", name, x.what, x.is, x.unit, x.most))
		case x.most > 0 && x.most <= x.limit:
			wrong = append(wrong, fmt.Sprintf("%s: a ceiling of %d %s is none: remove it", name, x.most, x.unit))
		}
	}
	return wrong
}

// TestWithin finds packages beyond their ceilings, and ceilings that are too high.
func TestWithin(t *testing.T) {
	for _, test := range []struct {
		is, ceiling size
		want        int
	}{
		{size{20, 40, 6000}, size{}, 0},
		{size{21, 41, 6001}, size{}, 3},
		{size{21, 41, 6001}, size{21, 41, 6100}, 0},
		{size{22, 42, 6101}, size{21, 41, 6100}, 3},
		{size{21, 41, 6001}, size{22, 42, 6200}, 3},
		{size{20, 40, 6000}, size{20, 0, 0}, 1},
	} {
		if got := within("p", test.is, test.ceiling); len(got) != test.want {
			t.Errorf("%v within %v: %q, want %d", test.is, test.ceiling, got, test.want)
		}
	}
}

// TestHouse keeps packages small enough to be understood, and interfaces few.
func TestHouse(t *testing.T) {
	interfaces := 0
	most := ceilings()
	for _, p := range measured(t) {
		name := strings.TrimPrefix(p.PkgPath, strings.TrimSuffix(module, "/")+"/")
		for _, w := range within(name, measure(p), most[name]) {
			t.Error(w)
		}
		delete(most, name)
		generated := generatedFiles(p)
		for _, n := range p.Types.Scope().Names() {
			o := p.Types.Scope().Lookup(n)
			if tn, ok := o.(*types.TypeName); ok && o.Exported() && !tn.IsAlias() && types.IsInterface(o.Type()) && !generated[p.Fset.Position(o.Pos()).Filename] {
				interfaces++
			}
		}
	}
	for name := range most {
		t.Errorf("%s has a ceiling, but is not there: remove it", name)
	}
	switch limit := max(interfacesCeiling, maxInterfaces); {
	case interfaces > limit:
		t.Errorf("%d exported interfaces, and %d is the most: use a function or a struct", interfaces, limit)
	case interfaces < interfacesCeiling && interfacesCeiling > maxInterfaces:
		t.Errorf("%d exported interfaces: lower the ceiling of %d", interfaces, interfacesCeiling)
	}
}
