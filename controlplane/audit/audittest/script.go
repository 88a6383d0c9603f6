package audittest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/types"
)

// A script is a history of keys as text. A line is a change, and a blank line ends a revision; the
// first one is revision 2:
//
// 	# a comment
// 	put nodes/n1 {"Capacity": {"cpu": "4"}}
// 	put alive/n1 {}
//
// 	put resources/d/co/n1 {"Capacity": 1000, "NodeSession": $(alive/n1)}
//
// 	del nodes/n1
// 	want NoDoubleBind task d/a
//
// Keys are below controlplane.Root. Values are JSON of the types of package types, and may continue
// on lines that begin with white space. $(key) is the revision at which the key was created, 0 if
// it is absent, as of the revision before. A value that is not JSON is stored unchanged.
//
// want lists the findings of the audit at that revision, by guarantee and object.

// A Step is one revision of a script.
type Step struct {
	Batch controlplane.Batch
	// Want are the expected findings, as "guarantee object".
	Want []string
}

// Parse parses a script.
func Parse(text string) ([]Step, error) {
	p := parser{created: make(map[string]int64), revision: 1}
	for _, group := range groups(text) {
		if err := p.step(group); err != nil {
			return nil, err
		}
	}
	return p.steps, nil
}

// groups splits a script into the lines of each revision.
func groups(text string) [][]string {
	var all [][]string
	var group []string
	flush := func() {
		if len(group) > 0 {
			all = append(all, group)
		}
		group = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\n")
		switch {
		case line == "":
			flush()
		case line[0] == '#':
		case (line[0] == ' ' || line[0] == '\t') && len(group) > 0:
			group[len(group)-1] += line
		default:
			group = append(group, line)
		}
	}
	flush()
	return all
}

type parser struct {
	revision int64
	created  map[string]int64
	steps    []Step
}

func (p *parser) step(lines []string) error {
	p.revision++
	s := Step{Batch: controlplane.Batch{Revision: p.revision}}
	for _, line := range lines {
		verb, rest, _ := strings.Cut(line, " ")
		if verb == "want" {
			s.Want = append(s.Want, rest)
			continue
		}
		name, value, _ := strings.Cut(rest, " ")
		e, err := p.event(verb, controlplane.Root+name, value)
		if err != nil {
			return fmt.Errorf("revision %d: %s: %w", p.revision, line, err)
		}
		s.Batch.Events = append(s.Batch.Events, e)
	}
	for _, e := range s.Batch.Events {
		p.created[e.Key] = e.CreateRevision
	}
	p.steps = append(p.steps, s)
	return nil
}

func (p *parser) event(verb, key, value string) (controlplane.Event, error) {
	e := controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: p.revision}}
	switch verb {
	case "del":
		e.Delete = true
		return e, nil
	case "put":
		if e.CreateRevision = p.created[key]; e.CreateRevision == 0 {
			e.CreateRevision = p.revision
		}
		var err error
		e.Value, err = encode(key, p.expand(value))
		return e, err
	}
	return e, fmt.Errorf("%q is neither put, del nor want", verb)
}

// expand replaces $(key) by the revision at which the key was created.
func (p *parser) expand(value string) string {
	return regexp.MustCompile(`\$\(([^)]*)\)`).ReplaceAllStringFunc(value, func(ref string) string {
		return strconv.FormatInt(p.created[controlplane.Root+ref[2:len(ref)-1]], 10)
	})
}

// encode returns the stored value of a JSON text.
func encode(key, text string) ([]byte, error) {
	k, ok := controlplane.Parse(key)
	m := audit.NewMessage(k)
	if !ok || m == nil || !json.Valid([]byte(text)) {
		return []byte(text), nil
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(m); err != nil {
		return nil, err
	}
	return types.Encode(0, m), nil
}

// Format writes a history as a script, with revisions in comments.
func Format(batches []controlplane.Batch) string {
	var b bytes.Buffer
	for _, batch := range batches {
		if len(batch.Events) == 0 {
			continue
		}
		fmt.Fprintf(&b, "# revision %d\n", batch.Revision)
		for _, e := range batch.Events {
			name := strings.TrimPrefix(e.Key, controlplane.Root)
			if e.Delete {
				fmt.Fprintf(&b, "del %s\n", name)
			} else {
				fmt.Fprintf(&b, "put %s %s\n", name, decode(e))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// decode returns a stored value as JSON, or unchanged.
func decode(e controlplane.Event) []byte {
	k, ok := controlplane.Parse(e.Key)
	m := audit.NewMessage(k)
	if !ok || m == nil || types.Decode(e.Value, m) != nil {
		return e.Value
	}
	text, err := json.Marshal(m)
	if err != nil {
		return e.Value
	}
	return text
}
