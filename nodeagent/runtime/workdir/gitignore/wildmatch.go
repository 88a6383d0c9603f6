package gitignore

import (
	"fmt"
	"regexp"
	"strings"
)

// translate returns the regular expression of a pattern, for texts of latin1. A regular expression
// takes linear time for any pattern. ok is false if the pattern matches nothing.
func translate(pattern string) (expression string, ok bool) {
	var out strings.Builder
	out.WriteString(`(?s)^`)
	for i := 0; i < len(pattern); {
		switch pattern[i] {
		case '*':
			n := stars(pattern[i:])
			// git compares what precedes the first special byte apart, and then sees a beginning.
			begins := i == strings.IndexAny(pattern, `*?[\`) || pattern[i-1] == '/'
			bounded := n > 1 && begins && (i+n == len(pattern) || pattern[i+n] == '/')
			switch i += n; {
			case !bounded:
				out.WriteString(`[^/]*`)
			case i < len(pattern):
				out.WriteString(`(?:.*/)?`)
				i++ // The slash is in the expression.
			default:
				out.WriteString(`.*`)
			}
		case '?':
			out.WriteString(`[^/]`)
			i++
		case '[':
			set, length := class(pattern[i:])
			if length == 0 {
				return "", false
			}
			out.WriteString(set.expression())
			i += length
		case '\\':
			i++
			if i == len(pattern) {
				return "", false
			}
			fallthrough
		default:
			out.WriteString(regexp.QuoteMeta(latin1(pattern[i : i+1])))
			i++
		}
	}
	out.WriteString(`$`)
	return out.String(), true
}

// stars returns the number of stars at the beginning.
func stars(pattern string) int { return len(pattern) - len(strings.TrimLeft(pattern, "*")) }

// bytesOf is a set of bytes.
type bytesOf [256]bool

// expression returns the set as a class of a regular expression.
func (b *bytesOf) expression() string {
	var out strings.Builder
	for c, in := range b {
		if in {
			fmt.Fprintf(&out, `\x{%x}`, c)
		}
	}
	if out.Len() == 0 {
		return `[^\x{0}-\x{10ffff}]`
	}
	return "[" + out.String() + "]"
}

// class reads a bracket expression. length is 0 if it has no end. It never has a slash.
func class(pattern string) (set *bytesOf, length int) {
	set = new(bytesOf)
	i := 1
	negated := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if negated {
		i++
	}
	last, ranged := byte(0), false // ranged: last may begin a range
	for first := true; ; first = false {
		switch {
		case i >= len(pattern):
			return nil, 0
		case pattern[i] == ']' && !first:
			for c := range set {
				set[c] = set[c] != negated
			}
			set['/'] = false
			return set, i + 1
		case pattern[i] == '-' && ranged && i+1 < len(pattern) && pattern[i+1] != ']':
			if i++; pattern[i] == '\\' {
				if i++; i == len(pattern) {
					return nil, 0
				}
			}
			for c := int(last); c <= int(pattern[i]); c++ {
				set[c] = true
			}
			ranged = false
			i++
		case strings.HasPrefix(pattern[i:], "[:"):
			name, _, closed := strings.Cut(pattern[i+2:], "]")
			if !closed {
				return nil, 0
			}
			if name, named := strings.CutSuffix(name, ":"); named {
				if !set.add(name) {
					return nil, 0
				}
				ranged = false
				i += len(name) + 4
				continue
			}
			set['['] = true // It is no name of a class.
			last, ranged = '[', true
			i++
		default:
			if pattern[i] == '\\' {
				if i++; i == len(pattern) {
					return nil, 0
				}
			}
			set[pattern[i]] = true
			last, ranged = pattern[i], true
			i++
		}
	}
}

// add adds a named class of ASCII. It reports false if there is no such name.
func (b *bytesOf) add(name string) bool {
	between := func(c, low, high int) bool { return low <= c && c <= high }
	digit := func(c int) bool { return between(c, '0', '9') }
	upper := func(c int) bool { return between(c, 'A', 'Z') }
	lower := func(c int) bool { return between(c, 'a', 'z') }
	in, known := map[string]func(int) bool{
		"digit": digit, "upper": upper, "lower": lower,
		"alpha":  func(c int) bool { return upper(c) || lower(c) },
		"alnum":  func(c int) bool { return upper(c) || lower(c) || digit(c) },
		"xdigit": func(c int) bool { return digit(c) || between(c, 'a', 'f') || between(c, 'A', 'F') },
		"blank":  func(c int) bool { return c == ' ' || c == '\t' },
		"space":  func(c int) bool { return c == ' ' || between(c, '\t', '\r') },
		"cntrl":  func(c int) bool { return c < ' ' || c == 0x7f },
		"graph":  func(c int) bool { return between(c, '!', '~') },
		"print":  func(c int) bool { return between(c, ' ', '~') },
		"punct": func(c int) bool {
			return between(c, '!', '~') && !upper(c) && !lower(c) && !digit(c)
		},
	}[name]
	if !known {
		return false
	}
	for c := range 0x80 {
		b[c] = b[c] || in(c)
	}
	return true
}
