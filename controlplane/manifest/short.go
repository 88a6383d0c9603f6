package manifest

import (
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/escher-sched/escher/types"
)

// shorthand is a type with a second, shorter written form.
type shorthand interface {
	// short decodes the shorter form. false means that n does not have it.
	short(d *decoder, n *yaml.Node, path string) bool
	// shorter is the schema of the shorter form.
	shorter() schema
}

// Env is an environment: texts NAME=value. In files it may be a map of names to values, too.
type Env []string

// short decodes a map. Numbers and booleans are texts as they are written.
func (e *Env) short(d *decoder, n *yaml.Node, path string) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := below(path, key.Value)
		switch {
		case strings.Contains(key.Value, "="):
			d.wrong(key, at, "contains =: write the name alone, and its value behind the colon")
		case value.Kind != yaml.ScalarNode:
			d.wrong(value, at, "%s is given: write a text", shown(value))
		case value.Tag == "!!null":
			d.wrong(value, at, "is empty: write a value, \"\" for none, or leave it out")
		}
		d.spelled(path+"["+strconv.Itoa(len(*e))+"]", at)
		*e = append(*e, key.Value+"="+value.Value)
	}
	return true
}

func (*Env) shorter() schema {
	return schema{
		"examples": []any{"{WORKERS: 4}"},
		"type":     "object", "propertyNames": schema{"pattern": "^[^=]+$"},
		"additionalProperties": schema{"type": []string{"string", "number", "boolean"}},
	}
}

// Models are words of models. In files they may be a single text, too.
type Models []string

func (m *Models) short(d *decoder, n *yaml.Node, path string) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	*m = make(Models, 1)
	d.text(n, textValue(&(*m)[0]), path)
	d.spelled(path+"[0]", path)
	return true
}

func (*Models) shorter() schema { return schema{"type": "string", "pattern": patternOfWord} }

// short decodes the name of a port that the node chooses, or a number, which is its name, too.
func (p *Port) short(d *decoder, n *yaml.Node, path string) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	if n.Tag == "!!int" || n.Tag == "!!float" {
		if err := n.Decode(&p.Number); n.Tag == "!!float" || err != nil || p.Number < 1 || p.Number > types.MaxPort {
			d.wrong(n, path, "%s is not a port: give 1 to %d, or a name for one that the node chooses", n.Value, types.MaxPort)
		}
		p.Name = strconv.Itoa(p.Number)
		return true
	}
	before := len(d.problems)
	if d.text(n, textValue(&p.Name), path); len(d.problems) > before {
		return true
	}
	if _, err := strconv.Atoi(p.Name); err == nil {
		d.wrong(n, path, "%q is a text: write a number, %s, for that port", p.Name, p.Name)
	} else if strings.Contains(p.Name, ":") {
		d.wrong(n, path, "%q maps ports, and a task has those of its node: write one number, or a name", p.Name)
	} else if err := types.ValidateName(path, p.Name); err != nil {
		d.wrongValue(n, path, "%s", strings.TrimPrefix(err.Error(), path+": "))
	}
	return true
}

func (*Port) shorter() schema {
	return schema{"anyOf": []any{
		schema{"type": "integer", "minimum": 1, "maximum": types.MaxPort},
		schema{"type": "string", "pattern": textOf("name").pattern, "not": schema{"pattern": "^[+-]?[0-9]+$"}},
	}, "examples": []any{"http", 8080}}
}

// short decodes SIGNAL@TIME.
func (w *Warn) short(d *decoder, n *yaml.Node, path string) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	var text string
	before := len(d.problems)
	if d.text(n, textValue(&text), path); len(d.problems) > before {
		return true
	}
	warn, err := ParseWarn(text)
	if err != nil {
		d.wrongValue(n, path, "%s", err)
		return true
	}
	w.Signal, w.Before = warn.Signal, types.Duration(warn.Before)
	d.spelled(below(path, "signal"), path)
	d.spelled(below(path, "before"), path)
	return true
}

func (*Warn) shorter() schema {
	return schema{"type": "string", "pattern": patternOfWarning, "not": schema{"pattern": patternOfNoWarning}, "examples": []string{"USR1@120s"}}
}

// ParseWarn reads SIGNAL@TIME. A number means seconds.
func ParseWarn(text string) (*types.Warn, error) {
	name, before, found := strings.Cut(text, "@")
	if seconds, err := strconv.Atoi(before); err == nil {
		before = strconv.Itoa(seconds) + "s"
	}
	d, err := time.ParseDuration(before)
	if !found || err != nil || d <= 0 {
		return nil, types.Errorf(types.Invalid, "%q does not say how long before the end: write SIGNAL@TIME, such as USR1@120s", text)
	}
	known, err := types.ParseSignal(name)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "%q is no signal: write its name, such as USR1@120s", name)
	}
	return &types.Warn{Signal: known, Before: d}, nil
}
