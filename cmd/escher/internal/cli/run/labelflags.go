package run

import (
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// labelFlags are the labels of what is launched.
type labelFlags []types.Label

func (l *labelFlags) Add(flags *pflag.FlagSet, short string) {
	flags.VarP(l, "label", short, "KEY=VALUE: a label, by which -l of other commands selects the tasks; repeat for several")
}

// Set parses one label. A second value of a key is refused.
func (l *labelFlags) Set(text string) error {
	label, err := types.ParseLabel("label", text)
	if err != nil {
		return err
	}
	all := append(*l, label)
	if err := types.ValidateLabels("label", all); err != nil {
		return err
	}
	*l = all
	return nil
}

func (l *labelFlags) String() string { return types.LabelsText(*l) }

// Type is the type of the flag.
func (*labelFlags) Type() string { return "label" }

// AddTo adds the labels to the tasks and jobs of a file, in place of other values there.
func (l labelFlags) AddTo(docs []manifest.Document) {
	if len(l) == 0 {
		return
	}
	for i := range docs {
		switch doc := &docs[i]; {
		case doc.Task != nil:
			l.addTo(&doc.Task.Labels)
		case doc.Job != nil:
			l.addTo(&doc.Job.Labels)
			if doc.Job.Template != nil {
				l.addTo(&doc.Job.Template.Labels)
			}
			for i := range doc.Job.Tasks {
				l.addTo(&doc.Job.Tasks[i].Labels)
			}
		}
	}
}

func (l labelFlags) addTo(m *map[string]string) {
	*m = types.LabelMap(types.MergeLabels(types.LabelsOf(*m), l))
}
