package convert

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// variables are those that a compose file makes use of.
type variables struct {
	env  func(string) (string, bool)
	file map[string]string // of .env
	// unset are the missing ones that texts used.
	unset map[string]int
	line  int
}

// lookup returns a variable: of the environment, else of .env.
func (v *variables) lookup(name string) (string, bool) {
	if v.env != nil {
		if value, set := v.env(name); set {
			return value, true
		}
	}
	value, set := v.file[name]
	return value, set
}

// maxNested bounds the nesting of defaults in a text.
const maxNested = 10

// expand replaces $NAME, ${NAME}, ${NAME:-default}, ${NAME:+other} and the like in a text; $$ is $.
func (v *variables) expand(text string, depth int) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`).FindString(strings.TrimPrefix(rest, "{"))
		braced := strings.HasPrefix(rest, "{") && name != ""
		switch {
		case strings.HasPrefix(rest, "$"):
			out.WriteString("$")
			text = rest[1:]
			continue
		case name == "":
			out.WriteString("$")
			text = rest
			continue
		case !braced:
			out.WriteString(v.value(name))
			text = rest[len(name):]
			continue
		}
		end := closing(rest)
		if end < 0 || depth > maxNested {
			return "", fmt.Errorf("%q: the brace is not closed, or the text nests too deeply: write $$ for a dollar sign", "$"+rest)
		}
		value, err := v.braced(name, rest[1+len(name):end], depth)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = rest[end+1:]
	}
}

// closing returns the index of the brace that closes the first one, -1 if there is none.
func closing(text string) int {
	open := 0
	for i, r := range text {
		switch r {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}

// value returns a variable, empty if it is not set.
func (v *variables) value(name string) string {
	value, set := v.lookup(name)
	if !set {
		v.unset[name] = v.line
	}
	return value
}

// braced returns the value of ${NAME…}, of which rest follows the name.
func (v *variables) braced(name, rest string, depth int) (string, error) {
	value, set := v.lookup(name)
	operator := strings.TrimPrefix(rest, ":")
	if operator != rest {
		set = set && value != ""
	}
	if operator == "" {
		return v.value(name), nil
	}
	word := operator[1:]
	switch {
	case operator[0] == '-' && !set, operator[0] == '+' && set:
		return v.expand(word, depth+1)
	case operator[0] == '+':
		return "", nil
	case operator[0] == '?' && !set:
		return "", fmt.Errorf("the variable %s is not set: %s", name, strings.TrimSuffix("set it: "+word, ": "))
	case operator[0] == '-', operator[0] == '?':
		return value, nil
	}
	return "", fmt.Errorf("${%s%s} is no variable: write ${%s}, or $$ for a dollar sign", name, rest, name)
}

// expandAll expands the texts in a value.
func (v *variables) expandAll(n *yaml.Node) error {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			continue
		}
		if err := v.expandAll(child); err != nil {
			return err
		}
	}
	if n.Kind != yaml.ScalarNode || !strings.Contains(n.Value, "$") {
		return nil
	}
	v.line = n.Line
	text, err := v.expand(n.Value, 0)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	if n.Value = text; n.Style == 0 { // a number or boolean may come out
		n.Tag = ""
	}
	return nil
}

// envFile reads a file of NAME=value lines.
func envFile(text []byte) (names []string, values map[string]string) {
	values = make(map[string]string)
	for line := range bytes.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(string(line)), "=")
		name = strings.TrimSpace(strings.TrimPrefix(name, "export "))
		if !ok || name == "" || name[0] == '#' {
			continue
		}
		value = strings.TrimSpace(value)
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			value = unquoted(value)
		} else if before, _, commented := strings.Cut(value, " #"); commented {
			value = strings.TrimSpace(before)
		}
		if _, twice := values[name]; !twice {
			names = append(names, name)
		}
		values[name] = value
	}
	return names, values
}
