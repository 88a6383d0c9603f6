package node

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/labels"
)

func TestParseLabels(t *testing.T) {
	for text, want := range map[string]string{
		"n1 a=b":                  "[n1] +[{a b}] -[]",
		"n1 n2 a=b c- d=":         "[n1 n2] +[{a b} {d }] -[c]",
		"a=b n1":                  "[n1] +[{a b}] -[]",
		"acme.com/a- acme.com/b=": "[] +[{acme.com/b }] -[acme.com/a]",
		"n1":                      "[n1] +[] -[]",
		"a=b-":                    `label.a: "b-" must begin and end with a letter or a digit: rename it`,
		"=b":                      "label: is empty: give it a name",
	} {
		nodes, change, err := parseLabels(strings.Fields(text))
		got := fmt.Sprintf("%v +%v -%v", nodes, change.Add, change.Remove)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// labelWorld has three nodes, of which n3 cannot be read.
func labelWorld(t *testing.T) (*cmdutil.Factory, *bytes.Buffer) {
	t.Helper()
	s, out := memstore.New(), new(bytes.Buffer)
	change := controlplane.NewChange(controlplane.NewBatch())
	change.Put(controlplane.NodeKey("n1"), &types.Node{Labels: []types.Label{{Name: "rack", Value: "r1"}}})
	change.Put(controlplane.NodeKey("n2"), &types.Node{})
	txn := change.Txn()
	txn.Ops = append(txn.Ops, controlplane.Op{Key: controlplane.NodeKey("n3"), Value: []byte{99}})
	if _, err := s.Commit(t.Context(), txn); err != nil {
		t.Fatal(err)
	}
	return &cmdutil.Factory{Outside: cmdutil.Outside{Out: out, Err: out, Getenv: func(string) string { return "" }}, Opened: s}, out
}

// TestLabelCommand prints the nodes and what needed no change, and stops at the first that fails.
func TestLabelCommand(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"n1 team=x", "n1\n"},
		{"n1 rack=r1", "escher: node n1 has these labels already\nn1\n"},
		{"n1 none- rack=r1", "escher: node n1 has no label none\nescher: node n1 has these labels already\nn1\n"},
		{"n1 n2 rack-", "n1\nescher: node n2 has no label rack\nn2\n"},
		{"n2 n1 rack=r2", "label node n1: label.rack: is \"r1\" already: overwrite it to make it \"r2\""},
		{"n2 n1 rack=r2 --overwrite", "n1\nn2\n"},
		{"-l rack team=x", "n1\n"},
		{"-l !rack n1 team=x", "n1\nn2\n"},
		{"-l none team=x", "selector: no node matches none: escher nodes --show-labels lists labels"},
		{"n3 team=x", "label node n3: "},
		{"--all n1 a=b", "all: names every node, and some are chosen too: give one of them"},
		{"--all -l rack a=b", "all: names every node, and some are chosen too: give one of them"},
		{"n9 a=b", "there is no node \"n9\": did you mean n1 or n2 or n3?"},
	} {
		f, out := labelWorld(t)
		cmd := newNodeLabel(f)
		cmd.SetArgs(strings.Fields(test.args))
		cmd.SetContext(t.Context())
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); err != nil {
			out.WriteString(err.Error())
		}
		if got := out.String(); got != test.want && (!strings.HasSuffix(test.want, ": ") || !strings.HasPrefix(got, test.want)) {
			t.Errorf("%s: %q, want %q", test.args, got, test.want)
		}
	}
}

func TestNodesWith(t *testing.T) {
	f, _ := labelWorld(t)
	for text, want := range map[string]string{"rack": "[n1]", "!rack": "[n2]", "rack!=r2": "[n1 n2]", "none": "[]"} {
		sel, err := labels.Parse("selector", text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := nodesWith(t.Context(), f.Opened, sel); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}
