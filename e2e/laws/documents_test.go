package laws

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// The largest page, paragraph and line: a reader takes in no more at a time.
const (
	maxPage      = 300
	maxParagraph = 4
	maxLine      = 120
)

// TestDocuments finds dead links, missing files, pages missing in the index, and too long pages and
// paragraphs.
func TestDocuments(t *testing.T) {
	pages := documents(t)
	headings := make(map[string][]string)
	for path, text := range pages {
		headings[path] = anchors(text)
	}
	linked := make(map[string]bool)
	for path, text := range pages {
		for _, target := range links(text) {
			file, anchor, _ := strings.Cut(target, "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if path == "docs/README.md" || path == "docs/cli.md" {
				linked[to] = true
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", path, target)
			} else if known, ok := headings[to]; ok && anchor != "" && !slices.Contains(known, anchor) {
				t.Errorf("%s: the link %s names no heading: %s has %s", path, target, to, strings.Join(known, ", "))
			}
		}
		if path == "CHANGELOG.md" {
			continue // the names were right when it was written
		}
		for _, m := range regexp.MustCompile("`([a-z0-9]+/[a-z0-9_/]+\\.(?:go|proto|yaml))`").FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", path, m[1])
			}
		}
		if strings.HasPrefix(path, "docs/cli") {
			continue // commands write these pages, for reference
		}
		if lines := strings.Count(text, "\n"); lines > maxPage {
			t.Errorf("%s has %d lines: make it two pages of at most %d", path, lines, maxPage)
		}
		for _, wrong := range paragraphs(text) {
			t.Errorf("%s:%s", path, wrong)
		}
	}
	for path := range pages {
		if strings.HasPrefix(path, "docs/") && path != "docs/README.md" && !linked[path] {
			t.Errorf("%s is not in docs/README.md", path)
		}
	}
}

// TestDocumentsThatCodeNames finds missing documents that a comment or text of the source names.
func TestDocumentsThatCodeNames(t *testing.T) {
	name := regexp.MustCompile(`\bdocs/[a-z/-]+\.(?:md|json)\b`)
	for _, s := range sources(t) {
		text, err := os.ReadFile(filepath.Join(root, s.path))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range name.FindAllString(string(text), -1) {
			_, err := os.Stat(filepath.Join(root, path))
			if err != nil && !strings.Contains(string(text), "(runc's "+path) {
				t.Errorf("%s names %s, which does not exist", s.path, path)
			}
		}
	}
}

// documents returns all pages by their paths, without their blocks of code.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	code := regexp.MustCompile("(?s)```.*?```")
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", pattern, paths, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[strings.TrimPrefix(filepath.ToSlash(path), root+"/")] = code.ReplaceAllStringFunc(string(text), func(block string) string {
				return strings.Repeat("\n", strings.Count(block, "\n"))
			})
		}
	}
	return all
}

// links returns the targets of the links of a page that are files or headings.
func links(text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[1], "://") {
			all = append(all, m[1])
		}
	}
	return all
}

// anchors returns the headings of a page in link form.
func anchors(text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return all
}

// paragraphs finds too long paragraphs and items. Tables and indented code do not count.
func paragraphs(text string) (wrong []string) {
	other := regexp.MustCompile(`^(\||#|    )|^$`)
	item := regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	lines := 0
	for i, line := range strings.Split(text, "\n") {
		switch {
		case item.MatchString(line):
			lines = 1
		case other.MatchString(line):
			lines = 0
			continue
		default:
			lines++
		}
		if n := utf8.RuneCountInString(line); n > maxLine {
			wrong = append(wrong, fmt.Sprintf("%d: the line has %d characters, at most %d", i+1, n, maxLine))
		}
		if lines == maxParagraph+1 {
			wrong = append(wrong, fmt.Sprintf("%d: the paragraph has more than %d lines: make it two, a list or a table", i+1, maxParagraph))
		}
	}
	return wrong
}
