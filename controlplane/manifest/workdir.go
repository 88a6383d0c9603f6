package manifest

import (
	"cmp"
	"path"

	"go.yaml.in/yaml/v3"

	"github.com/escher-sched/escher/types"
)

// Workdir is a directory with the user's code, in the container. A text stands for its From.
type Workdir struct {
	From  string `json:"from,omitempty" desc:"a directory of the machine that submits the file, counted from the file; its files are sent to the nodes, without those that .gitignore names" or:"image" without:"image"`
	Image string `json:"image,omitempty" desc:"a directory that was sent before, instead"`
	To    string `json:"to,omitempty" desc:"the path in the container; /workdir if it is left out" is:"absolute"`
}

// Specs returns what the tasks of the document run.
func (d *Document) Specs() []*Spec {
	var all []*Spec
	if d.Task != nil {
		all = append(all, &d.Task.Spec)
	}
	if d.Job == nil {
		return all
	}
	if d.Job.Template != nil {
		all = append(all, &d.Job.Template.Spec)
	}
	for i := range d.Job.Tasks {
		all = append(all, &d.Job.Tasks[i].Spec)
	}
	return all
}

// workdir adds the workdir of the document to out. One that was not sent has no image.
func (s *Spec) workdir(out *types.Spec) {
	if w := s.Workdir; w != nil {
		out.Workdir = &types.Workdir{Image: w.Image, Target: cmp.Or(w.To, types.DefaultWorkdir)}
	}
}

// fromWorkdir is the inverse of workdir.
func (s *Spec) fromWorkdir(from *types.Spec) {
	if w := from.Workdir; w != nil {
		s.Workdir = &Workdir{Image: w.Image, To: w.Target}
	}
}

// sendable checks the workdir of a document, and lets spec pass as if it had been sent.
func (w *Workdir) sendable(spec *types.Spec) error {
	switch {
	case w == nil:
		return nil
	case w.From == "" && w.Image == "":
		return types.Errorf(types.Invalid, "spec.workdir.from: is missing: name a directory, . is that of the file")
	case w.From != "" && w.Image != "":
		return types.Errorf(types.Invalid, "spec.workdir.from: is given together with image: give one of them")
	case w.From != "":
		spec.Workdir.Image = types.UnsentWorkdir
	}
	return nil
}

// short decodes a text in place of a workdir: its From.
func (w *Workdir) short(d *decoder, n *yaml.Node, at string) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	if path.IsAbs(n.Value) {
		d.wrongValue(n, at, "%q is absolute: write dir: %s for a directory in the container, or {from: %s} for one of this machine", n.Value, n.Value, n.Value)
		return true
	}
	d.text(n, textValue(&w.From), at)
	return true
}

func (*Workdir) shorter() schema {
	return schema{"type": "string", "pattern": `^[^/]`, "examples": []string{"."}}
}
