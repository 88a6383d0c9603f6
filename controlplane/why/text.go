package why

import (
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// few is the most names given of many.
const few = 8

// MaxLines bounds the lines of an explanation that is not wide.
const MaxLines = 25

// Lines renders the explanation as text: the sentence, the suggestion, then the details in
// sections. Unless wide, it has at most MaxLines lines, each section shortened. The voice renders
// actions in the words of the program that prints the lines.
func (e Explanation) Lines(wide bool, voice action.Renderer) []string {
	p := &page{ns: e.Namespace, wide: wide, lines: []string{e.Summary}}
	if !e.Suggestion.IsZero() {
		p.lines = append(p.lines, "→ "+e.Suggestion.Render(voice))
	}
	p.section("note", len(e.Notes), 4, func(i int) string { return e.Notes[i].Render(voice) })
	for i, x := range e.Vectors {
		if len(e.Vectors) > 1 {
			p.add(fmt.Sprintf("alternative %d: %s", i+1, x.Summary))
		}
		p.vector(x, len(e.Vectors) > 1)
	}
	p.section("has", len(e.Amounts), 8, func(i int) string {
		a := e.Amounts[i]
		return fmt.Sprintf("%s: %s of %s free", NameOf(p.ns, a.Resource), a.Free, a.Capacity)
	})
	p.section("tasks", len(e.Groups), 8, func(i int) string {
		g := e.Groups[i]
		return fmt.Sprintf("%d × %s (%s)", g.Count, strings.TrimSuffix(g.Summary, "."), p.names(g.Tasks, g.Count))
	})
	p.section("held by", len(e.Holders), 6, func(i int) string { return p.holder(e.Holders[i]) })
	p.section("from", len(e.Providers), 3, func(i int) string { return p.provider(e.Providers[i]) })
	if e.Queue != nil {
		p.label = ""
		p.row("queue", e.Queue.text())
	}
	if !wide && len(p.lines) > MaxLines {
		p.lines, p.cut = p.lines[:MaxLines-1], true
	}
	if p.cut {
		p.lines = append(p.lines, "  … "+voice(action.ExplainFully.Of()))
	}
	return p.lines
}

// page is a text under construction.
type page struct {
	ns    string
	wide  bool
	lines []string
	label string
	// cut reports whether something was omitted.
	cut bool
}

func (p *page) add(line string) { p.lines = append(p.lines, line) }

// row adds a line of a section, whose label appears once.
func (p *page) row(label, text string) {
	if label == p.label {
		label = ""
	} else {
		p.label = label
	}
	p.add(fmt.Sprintf("  %-9s%s", label, text))
}

// section adds rows, at most few unless wide.
func (p *page) section(label string, n, few int, text func(int) string) {
	if n > few && !p.wide {
		n, p.cut = few, true
	}
	p.label = ""
	for i := range n {
		p.row(label, text(i))
	}
}

func (p *page) vector(x Vector, short bool) {
	rejected, nearest := 5, 3
	if short {
		rejected, nearest = 2, 1
	}
	p.section("pool", len(x.Pools), 3, func(i int) string { return p.missing(x.Pools[i]) })
	p.section("rejected", len(x.Rejected), rejected, func(i int) string {
		r := x.Rejected[i]
		return fmt.Sprintf("%d × %s (%s)", len(r.Nodes), r.Reason, p.names(r.Nodes, len(r.Nodes)))
	})
	if len(x.Barred) > 0 {
		p.section("would do", 1, 1, func(int) string { return p.names(x.Barred, len(x.Barred)) + ", if alive and not cordoned" })
	}
	p.section("nearest", len(x.Nearest), nearest, func(i int) string {
		var parts []string
		for _, m := range x.Nearest[i].Missing {
			parts = append(parts, p.missing(m))
		}
		return x.Nearest[i].Node + ": " + strings.Join(parts, "; ")
	})
}

func (p *page) missing(m Missing) string {
	name := NameOf(p.ns, m.Resource)
	text := fmt.Sprintf("%s %s wanted, %s of %s free", m.Want, name, m.Free, m.Capacity)
	if m.Which != "" {
		text = fmt.Sprintf("%s %s %s wanted, %s of %s such free", m.Want, name, m.Which, m.Free, m.Capacity)
	}
	_, fixed := m.Resource.FixedPort()
	switch {
	case strings.HasPrefix(string(m.Resource), "node/"):
		text = "it is another node"
	case m.Resource.IsPlacement():
		text = "it is not in " + name
	case fixed && m.Reason != "":
		text = name + " is not available"
	case m.Absent:
		text = fmt.Sprintf("%s %s wanted, and there is none", m.Want, name)
	case fixed:
		text = name + " is in use"
	}
	if m.Reason != "" {
		text += " (" + m.Reason + ")"
	}
	return text
}

func (p *page) holder(h Holder) string {
	text := fmt.Sprintf("%s: %s", h.NameIn(p.ns), amountText(p.ns, h.Resource, h.Amount))
	if h.Node != "" {
		text += " on " + h.Node
	}
	if len(h.Devices) > 0 {
		text += " (" + p.names(h.Devices, len(h.Devices)) + ")"
	}
	if h.Phase != "" && (h.Kind == KindReservation || h.Phase != string(types.Running)) {
		text += ", " + h.Phase
	}
	if h.Priority != 0 {
		text += fmt.Sprintf(", priority %d", h.Priority)
	}
	if h.Leaving != "" {
		text += ", being " + h.Leaving
	}
	if h.EndsBy != nil {
		text += ", ends within " + InWords(h.Left)
	}
	return text
}

func (p *page) provider(x Provider) string {
	text := fmt.Sprintf("%s: %s %s", Ref(p.ns, cluster.ID{Namespace: p.ns, ID: x.ID}), x.Amount, NameOf(p.ns, x.Resource))
	switch x.When {
	case types.WhenSucceeded:
		text += " when it succeeds"
	case types.WhenRunning:
		text += " while it runs"
	case types.WhenHealthy:
		text += " while it is healthy"
	}
	return text + ". " + x.Why
}

// names lists some of the given number of names.
func (p *page) names(all []string, of int) string {
	if len(all) > few && !p.wide {
		all, p.cut = all[:few], true
	}
	if len(all) < of {
		all = append(all[:len(all):len(all)], "…")
	}
	return strings.Join(all, " ")
}

func (q *Queue) text() string {
	switch {
	case q.Ahead == 0:
		return "nothing is before it"
	case q.Same == 0:
		return fmt.Sprintf("%d before it, for other things", q.Ahead)
	}
	names := strings.Join(q.First, " ")
	if len(q.First) < q.Same {
		names += " …"
	}
	if q.Same < q.Ahead {
		return fmt.Sprintf("%d before it, %d of them for the same: %s", q.Ahead, q.Same, names)
	}
	return fmt.Sprintf("%d before it, for the same: %s", q.Ahead, names)
}

// In returns the explanation with actions in the words of one program: what its encoding then
// contains.
func (e Explanation) In(voice action.Renderer) Explanation {
	e.Suggestion = e.Suggestion.In(voice)
	e.Notes = slices.Clone(e.Notes)
	for i, n := range e.Notes {
		e.Notes[i] = n.In(voice)
	}
	e.Vectors = slices.Clone(e.Vectors)
	for i := range e.Vectors {
		e.Vectors[i].Suggestion = e.Vectors[i].Suggestion.In(voice)
	}
	e.Groups = slices.Clone(e.Groups)
	for i := range e.Groups {
		e.Groups[i].Suggestion = e.Groups[i].Suggestion.In(voice)
	}
	return e
}
