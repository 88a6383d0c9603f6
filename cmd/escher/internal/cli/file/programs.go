package file

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/distribution/reference"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
)

const (
	// askedNodes is the largest number of nodes that plan asks for their images.
	askedNodes = 16
	// askPatience limits the time that plan waits for them.
	askPatience = 2 * time.Second
)

// commanded is an image of a file whose tasks give a command and no entry point.
type commanded struct{ document, image string }

// commandedImages lists the images of changes that get a command and no entry point, each once.
func commandedImages(changes []apply.Change) []commanded {
	var all []commanded
	for i := range changes {
		for _, s := range changes[i].Submissions {
			if s.Spec == nil || len(s.Spec.Command) == 0 || len(s.Spec.Entrypoint) > 0 {
				continue
			}
			c := commanded{slashed(changes[i].Kind, changes[i].Name), fullName(s.Spec.Image)}
			if !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

// fullName returns the name under which nodes list an image.
func fullName(image string) string {
	named, err := reference.ParseDockerRef(image)
	if err != nil {
		return image
	}
	return named.String()
}

// programNotes says which commands of the planned tasks are arguments of an entry point of their
// image, as far as nodes know the images. It asks the nodes of the placements first.
func (p *planned) programNotes(ctx context.Context, f *cmdutil.Factory, client *controlplane.Client) []string {
	wanted := commandedImages(p.Changes)
	if len(wanted) == 0 {
		return nil
	}
	alive, _, err := nodeapi.Names(ctx, client.Store())
	if err != nil {
		return nil // The plan is complete without the notes.
	}
	var nodes []string
	for _, r := range p.Placements {
		if slices.Contains(alive, r.Node) {
			nodes = append(nodes, r.Node)
		}
	}
	nodes = distinct(append(nodes, alive...))
	known, answered := entrypoints(ctx, f, nodes[:min(len(nodes), askedNodes)])
	if !answered && len(nodes) > 0 {
		return nil
	}
	return notesOf(wanted, known)
}

// distinct drops repetitions.
func distinct(names []string) []string {
	var out []string
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if !seen[name] {
			out = append(out, name)
		}
		seen[name] = true
	}
	return out
}

// entrypoints returns the entry points of the images of nodes, by name. An image that no node has
// is absent. answered reports whether any node has answered.
func entrypoints(ctx context.Context, f *cmdutil.Factory, nodes []string) (known map[string][]string, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	answers := make(chan []nodeapi.Image, len(nodes))
	failed := f.EachNode(ctx, nodes, func(ctx context.Context, c *nodeapi.Client) error {
		images, err := c.Images(ctx)
		answers <- images
		return err
	}) // a node that does not answer tells nothing
	close(answers)
	known = make(map[string][]string)
	for images := range answers {
		for _, x := range images {
			if len(known[x.Name]) == 0 {
				known[x.Name] = x.Entrypoint
			}
		}
	}
	return known, len(failed) < len(nodes)
}

// notesOf returns one note for each image that has an entry point, and one for all unknown images.
func notesOf(wanted []commanded, known map[string][]string) []string {
	var notes, unknown []string
	for _, c := range wanted {
		entrypoint, found := known[c.image]
		switch {
		case !found:
			unknown = append(unknown, c.image)
		case len(entrypoint) > 0:
			notes = append(notes, fmt.Sprintf("%s: the command is arguments of the entry point of image %s, which is %s; write entrypoint: [] to run the command by itself",
				c.document, c.image, render.CommandText(entrypoint)))
		}
	}
	if unknown = distinct(unknown); len(unknown) > 0 {
		also := ""
		if len(unknown) > 1 {
			also = fmt.Sprintf(" and %d others", len(unknown)-1)
		}
		notes = append(notes, fmt.Sprintf("No asked node has image %s%s: if an image has an entry point, commands are its arguments.", unknown[0], also))
	}
	return notes
}
