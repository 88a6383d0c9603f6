package gitignore_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/escher-sched/escher/nodeagent/runtime/workdir/gitignore"
)

func TestIgnored(t *testing.T) {
	for _, test := range []struct {
		rules, ignored, kept string // paths; one with a slash at its end is a directory
	}{
		{"*.log", "a.log d/b.log x.log/", "a.logs log"},
		{"# *.log\n\\#x\n\\!y", "#x !y", "a.log x"},
		{"/build", "build build/", "d/build"},
		{"build/", "build/ d/build/", "build d/build"},
		{"doc/*.txt", "doc/a.txt", "doc/d/a.txt x/doc/a.txt"},
		{"**/out", "out a/out a/b/out", "outs"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "ab x/a/b"},
		{"a/**", "a/x a/x/y", "a/ b/a/x"},
		{"*\n!*.py", "a b.txt", "c.py d/e.py"},
		{"!a\na", "a", "b"},
		{"trailing  \nescaped\\ ", "trailing escaped\\x20", "escaped"},
		{"windows\r\nnext", "windows next", ""},
		{"\xef\xbb\xbfbom", "bom", ""},
		{"[a-c]x\n[!a-y]y\n[[:digit:]]z", "ax cx zy 9z", "dx ay az"},
		{"[]]x\n[a\\-z]w", "]x aw -w zw", "bw"},
		{"open[", "", "open[ open"},
		{"a?c", "abc", "ac a/c abbc"},
		{"a**c", "abbc ac", "a/c"},
		{"back\\", "", "back back\\"},
		{"\xff*", "\xff \xffx", "x"},
		{"/\n\n!", "", "a"},
	} {
		rules := (*gitignore.Rules)(nil).Below(".", []byte(test.rules))
		for want, paths := range map[bool]string{true: test.ignored, false: test.kept} {
			for p := range strings.FieldsSeq(paths) {
				p, isDir := strings.CutSuffix(strings.ReplaceAll(p, `\x20`, " "), "/")
				if got := rules.Ignored(p, isDir); got != want {
					t.Errorf("%q, ignored by %q: %v, want %v", p, test.rules, got, want)
				}
			}
		}
	}
}

func TestInnerRulesOverrideOuterOnes(t *testing.T) {
	var none *gitignore.Rules
	if none.Ignored("a", false) {
		t.Error("a path is ignored without rules")
	}
	outer := none.Below(".", []byte("*.bin\n/top"))
	inner := outer.Below("d/e", []byte("!keep.bin\n/own"))
	for p, want := range map[string]bool{
		"d/e/keep.bin": false, "d/e/x.bin": true, "d/e/own": true, "d/e/f/own": false, "d/own": false, "d/e/top": false, "keep.bin": true,
	} {
		if got := inner.Ignored(p, false); got != want {
			t.Errorf("%s is ignored: %v, want %v", p, got, want)
		}
	}
}

// TestAgreesWithGit compares random rules with git's.
func TestAgreesWithGit(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var files []string
	names := []string{"a", "b", "ab", "a.c", "x-1", "é"}
	for _, one := range names {
		for _, two := range names {
			for _, three := range names[:4] {
				p := path.Join(one+"d", two+"d", three)
				files = append(files, p)
				must(t, os.MkdirAll(filepath.Join(dir, path.Dir(p)), 0o700))
				must(t, os.WriteFile(filepath.Join(dir, p), nil, 0o600))
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "b", "ab", "d", "ad", "*", "**", "?", "/", "/**/", "[a-b]", "[!a]", "[[:alpha:]]", ".", "\\a", "c", "é", "***", "[^", "]", "\\"}
	line := func() string {
		var b strings.Builder
		if random.IntN(4) == 0 {
			b.WriteString("!")
		}
		for range 1 + random.IntN(5) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		return b.String() + "\n"
	}
	for range 150 {
		outer, inner := line()+line()+line(), line()+line()
		must(t, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(outer), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "ad", ".gitignore"), []byte(inner), 0o600))
		if diff := cmp.Diff(gits(t, dir), ours(outer, inner, files)); diff != "" {
			t.Fatalf("rules %q, in ad %q: git keeps -, we keep +:\n%s", outer, inner, diff)
		}
	}
}

// ours returns the files that the rules keep, sorted.
func ours(outer, inner string, files []string) []string {
	top := (*gitignore.Rules)(nil).Below(".", []byte(outer))
	within := top.Below("ad", []byte(inner))
	var kept []string
	for _, p := range files {
		ignored := false
		for i := range len(p) + 1 {
			if ignored || i < len(p) && p[i] != '/' {
				continue
			}
			rules := top
			if strings.HasPrefix(p[:i], "ad/") {
				rules = within
			}
			ignored = rules.Ignored(p[:i], i < len(p))
		}
		if !ignored {
			kept = append(kept, p)
		}
	}
	slices.Sort(kept)
	return kept
}

func gits(t *testing.T, dir string) []string {
	t.Helper()
	out, err := exec.Command("git", "-C", dir, "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore").Output()
	must(t, err)
	var kept []string
	for p := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		if name := string(p); name != "" && path.Base(name) != ".gitignore" {
			kept = append(kept, name)
		}
	}
	slices.Sort(kept)
	return kept
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
