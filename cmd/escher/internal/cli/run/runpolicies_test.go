package run

import (
	"encoding/json"
	"testing"

	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
)

// counted is a parameter that counts how often it is decoded.
type counted struct {
	value   int
	decoded *int
}

func (c *counted) UnmarshalJSON(text []byte) error {
	*c.decoded++
	return json.Unmarshal(text, &c.value)
}

// counting is a policy with such a parameter.
type counting struct {
	Most counted `json:"most,omitempty" desc:"how many there are"`
	seen *int
}

func (counting) Kind() string { return "counting" }

func (c counting) Apply(*esl.Group) error {
	*c.seen = c.Most.value
	return nil
}

// TestFlagsAreDecodedOnce follows a parameter from a flag to Apply.
func TestFlagsAreDecodedOnce(t *testing.T) {
	for _, args := range [][]string{{"--most", "2"}, {"--policy", "counting={most: 2}"}} {
		var decoded, seen int
		var p PolicyFlags
		p.Add(pflag.NewFlagSet("run", pflag.ContinueOnError))
		p.flags.Int("most", 0, "")
		if err := p.flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		empty := counting{Most: counted{decoded: &decoded}, seen: &seen}
		m := policyMaker{flags: p.flags, used: make(map[string]bool), known: manifest.Policies{
			"counting": {New: func() any { made := empty; return &made }, Job: true},
		}}
		m.add(empty, esl.Flag{Name: "most", Number: esl.Sets[int]("most")})
		for _, text := range p.others {
			m.made(manifest.ReadPolicy(text, m.known))
		}
		g := esl.Group{ID: "j", Tasks: make([]controlplane.Submission, 1)}
		if err := g.Apply(m.policies); err != nil || len(m.errs) > 0 || seen != 2 || decoded != 1 {
			t.Errorf("%s: decoded %d times, Apply has %d: %v, %v", args, decoded, seen, err, m.errs)
		}
	}
}
