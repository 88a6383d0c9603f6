// Package gitignore says which files the .gitignore files of a directory leave out. It follows
// gitignore(5) and git's wildmatch.
package gitignore

import (
	"bytes"
	"path"
	"regexp"
	"strings"
)

// Rules are those of one .gitignore file, and of the files in the directories above it. nil means
// no rules.
type Rules struct {
	above *Rules
	// dir is the directory of the file, with a slash at its end; empty means the root.
	dir   string
	rules []rule
}

// rule is one pattern.
type rule struct {
	match *regexp.Regexp
	// keep reports whether the pattern takes files back in.
	keep bool
	// onlyDirs reports whether it matches directories alone, base whether it matches the last part
	// of a path.
	onlyDirs, base bool
}

// Below returns the rules for dir, a slash-separated path from the root, whose .gitignore file has
// that text. "." is the root.
func (r *Rules) Below(dir string, text []byte) *Rules {
	below := &Rules{above: r}
	if dir != "." {
		below.dir = dir + "/"
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	for line := range strings.SplitSeq(string(text), "\n") {
		if p, ok := parse(strings.TrimSuffix(line, "\r")); ok {
			below.rules = append(below.rules, p)
		}
	}
	return below
}

// Ignored reports whether the rules leave out a path from the root. The directories above it must
// not be left out: then everything in them is, too.
func (r *Rules) Ignored(p string, isDir bool) bool {
	for ; r != nil; r = r.above {
		within, ok := strings.CutPrefix(p, r.dir)
		if !ok {
			continue
		}
		whole, base := latin1(within), latin1(path.Base(within))
		for i := len(r.rules) - 1; i >= 0; i-- {
			x := &r.rules[i]
			text := whole
			if x.base {
				text = base
			}
			if (isDir || !x.onlyDirs) && x.match.MatchString(text) {
				return !x.keep
			}
		}
	}
	return false
}

// parse reads a line. ok is false if it has no pattern, or one that matches nothing.
func parse(line string) (r rule, ok bool) {
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	line = trimSpaces(line)
	line, r.keep = strings.CutPrefix(line, "!")
	line, r.onlyDirs = strings.CutSuffix(line, "/")
	r.base = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	pattern, ok := translate(line)
	if !ok {
		return r, false
	}
	var err error
	r.match, err = regexp.Compile(pattern)
	return r, err == nil
}

// trimSpaces removes the spaces at the end, except those after a backslash.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && i+1 < len(line):
			i++
			end = i + 1
		case line[i] != ' ':
			end = i + 1
		}
	}
	return line[:end]
}

// latin1 returns a text whose runes are the bytes of another: wildmatch compares bytes, and names
// of files need not be UTF-8.
func latin1(text string) string {
	for i := range len(text) {
		if text[i] >= 0x80 {
			runes := make([]rune, len(text))
			for i := range len(text) {
				runes[i] = rune(text[i])
			}
			return string(runes)
		}
	}
	return text
}
