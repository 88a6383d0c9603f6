package manifest

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// spelled records that a field is written at another path than the types have it: a request in long
// form restricts devices, for example.
func (d *decoder) spelled(path, written string) {
	if d.spellings == nil {
		d.spellings = make(map[string]string)
	}
	d.spellings[plainPath(path)] = written
}

// spelledRun records that the program of a spec is written as a script.
func (d *decoder) spelledRun(spec, written string) {
	d.spelled(below(spec, "entrypoint"), written)
	d.spelled(below(spec, "command"), written)
}

// plainPath returns a path as it is compared: "spec.max run" is spec.maxRun.
func plainPath(path string) string { return strings.ToLower(strings.ReplaceAll(path, " ", "")) }

// asWritten returns the path at which a field is written. A spelling may lead to another one, as
// of a field of a field.
func (d *decoder) asWritten(path string) string {
	for range len(d.spellings) {
		next := d.respelled(path)
		if next == path {
			break
		}
		path = next
	}
	return path
}

// respelled replaces the longest beginning of a path that has another spelling.
func (d *decoder) respelled(path string) string {
	for i := len(path); i > 0; i-- {
		if i < len(path) && path[i] != '.' && path[i] != '[' {
			continue
		}
		if written, ok := d.spellings[plainPath(path[:i])]; ok {
			return strings.TrimPrefix(written+path[i:], ".")
		}
	}
	return path
}

// told adds the problems of fields of n, one line each that begins with the path of its field.
func (d *decoder) told(n *yaml.Node, err error, path string) {
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		field, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if path == "" {
			field = d.asWritten(field)
		}
		at, field := locate(n, field)
		d.wrong(at, below(path, field), "%s", text)
	}
}

// locate returns the value at a path, or its nearest existing parent, and the path in the
// document's spelling: "max run" is maxRun there.
func locate(n *yaml.Node, path string) (at *yaml.Node, written string) {
	rest := path
	for rest != "" {
		child, name, after := childAt(n, rest)
		written = below(written, name)
		number, more, indexed := strings.Cut(strings.TrimPrefix(after, "["), "]")
		if i, err := strconv.Atoi(number); indexed && strings.HasPrefix(after, "[") && err == nil {
			written, after = written+"["+number+"]", more
			if child.Kind == yaml.SequenceNode && i >= 0 && i < len(child.Content) {
				child = child.Content[i]
			}
		}
		after = strings.TrimPrefix(after, ".")
		if child == n {
			return n, below(written, after)
		}
		n, rest = child, after
	}
	return n, written
}

// childAt returns the field of n that begins a path, n itself if it has none, and the field's name
// in the document's spelling. Names of resources have dots.
func childAt(n *yaml.Node, path string) (child *yaml.Node, name, after string) {
	name, child = path, n
	if end := strings.IndexAny(path, ".["); end >= 0 {
		name, after = path[:end], path[end:]
	}
	plain := plainPath(name)
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		if rest, begins := strings.CutPrefix(path, key); begins && (rest == "" || rest[0] == '.' || rest[0] == '[') && len(key) >= len(name) {
			return n.Content[i+1], key, rest
		}
		if plainPath(key) == plain {
			child, name = n.Content[i+1], key
		}
	}
	return child, name, after
}
