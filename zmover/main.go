package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"unicode"

	"golang.org/x/tools/go/packages"
)

func main() {
	from := flag.String("from", "", "")
	to := flag.String("to", "", "")
	files := flag.String("files", "", "")
	rename := flag.String("rename", "", "")
	dry := flag.Bool("n", false, "")
	strip := flag.String("strip", "", "prefix of files")
	flag.Parse()
	pkgName := filepath.Base(*to)
	wd, _ := os.Getwd()
	moved := map[string]bool{}
	for _, f := range strings.Split(*files, ",") {
		moved[filepath.Join(wd, *from, f)] = true
	}
	renames := map[string]string{}
	for _, r := range strings.Split(*rename, ",") {
		if a, b, ok := strings.Cut(r, "="); ok {
			renames[a] = b
		}
	}
	fset := token.NewFileSet()
	pkgs, err := packages.Load(&packages.Config{Fset: fset, Tests: true, Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps | packages.NeedModule}, "./...")
	if err != nil {
		panic(err)
	}
	key := func(o types.Object) string {
		p := fset.Position(o.Pos())
		return fmt.Sprintf("%s:%d", p.Filename, p.Offset)
	}
	isMoved := func(o types.Object) bool { return o != nil && o.Pos().IsValid() && moved[fset.Position(o.Pos()).Filename] }
	pkgLevel := func(o types.Object) bool { return o.Pkg() != nil && o.Parent() == o.Pkg().Scope() }
	outside := map[string]types.Object{}
	bad := map[string]bool{}
	root := filepath.Join(wd, *from)
	for _, p := range pkgs {
		for _, e := range p.Errors {
			fmt.Println("ERR", e)
		}
		for _, f := range p.Syntax {
			name := fset.Position(f.Pos()).Filename
			for id, o := range p.TypesInfo.Uses {
				if fset.Position(id.Pos()).Filename != name {
					continue
				}
				if !moved[name] && isMoved(o) {
					outside[key(o)] = o
				}
				if moved[name] && o.Pos().IsValid() && !isMoved(o) && o.Pkg() != nil && filepath.Dir(fset.Position(o.Pos()).Filename) == root {
					bad[fmt.Sprintf("%s uses %s (%s)", fset.Position(id.Pos()), o.Name(), fset.Position(o.Pos()))] = true
				}
			}
		}
	}
	var bs []string
	for b := range bad {
		bs = append(bs, b)
	}
	sort.Strings(bs)
	for _, b := range bs {
		fmt.Println("BAD", b)
	}
	newName := map[string]string{}
	var list []string
	for k, o := range outside {
		n := o.Name()
		if r, ok := renames[n]; ok {
			n = r
		} else if !token.IsExported(n) {
			rs := []rune(n)
			rs[0] = unicode.ToUpper(rs[0])
			n = string(rs)
		}
		newName[k] = n
		if n != o.Name() {
			list = append(list, fmt.Sprintf("%s -> %s  (%s)", o.Name(), n, filepath.Base(fset.Position(o.Pos()).String())))
		}
	}
	sort.Strings(list)
	for _, l := range list {
		fmt.Println("EXPORT", l)
	}
	if *dry || len(bs) > 0 {
		return
	}
	type edit struct {
		at, n int
		s     string
	}
	edits := map[string]map[int]edit{}
	add := func(pos token.Pos, old, s string) {
		p := fset.Position(pos)
		if edits[p.Filename] == nil {
			edits[p.Filename] = map[int]edit{}
		}
		edits[p.Filename][p.Offset] = edit{p.Offset, len(old), s}
	}
	for _, p := range pkgs {
		for _, f := range p.Syntax {
			name := fset.Position(f.Pos()).Filename
			sel := map[*ast.Ident]*ast.Ident{}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok {
						sel[s.Sel] = x
					}
				}
				id, ok := n.(*ast.Ident)
				if !ok {
					return true
				}
				o := p.TypesInfo.Uses[id]
				if o == nil {
					o = p.TypesInfo.Defs[id]
				}
				if !isMoved(o) {
					return true
				}
				nn, ok := newName[key(o)]
				if !ok {
					return true
				}
				switch {
				case moved[name]:
					add(id.Pos(), id.Name, nn)
				case !pkgLevel(o):
					add(id.Pos(), id.Name, nn)
				case filepath.Dir(name) == root && (strings.TrimSuffix(p.Name, "_test") == p.Name):
					add(id.Pos(), id.Name, pkgName+"."+nn)
				default:
					add(id.Pos(), id.Name, nn)
					if q := sel[id]; q != nil {
						add(q.Pos(), q.Name, pkgName)
					}
				}
				return true
			})
		}
	}
	os.MkdirAll(*to, 0o755)
	pc := regexp.MustCompile(`(?m)^package \w+`)
	for f := range moved {
		if edits[f] == nil {
			edits[f] = map[int]edit{}
		}
	}
	for f, es := range edits {
		b, err := os.ReadFile(f)
		if err != nil {
			panic(err)
		}
		var l []edit
		for _, e := range es {
			l = append(l, e)
		}
		sort.Slice(l, func(i, j int) bool { return l[i].at > l[j].at })
		s := string(b)
		for _, e := range l {
			s = s[:e.at] + e.s + s[e.at+e.n:]
		}
		if moved[f] {
			for k, nn := range newName {
				o := outside[k]
				s = regexp.MustCompile(`(?m)^(\s*// )`+o.Name()+`\b`).ReplaceAllString(s, "${1}"+nn)
			}
			s = pc.ReplaceAllString(s, "package "+pkgName)
			os.Remove(f)
			f = filepath.Join(wd, *to, strings.TrimPrefix(filepath.Base(f), *strip))
		}
		if err := os.WriteFile(f, []byte(s), 0o644); err != nil {
			panic(err)
		}
		fmt.Println("WROTE", f)
	}
}
