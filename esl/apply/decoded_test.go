package apply_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/apply"
)

// counted is a parameter that counts how often it is decoded and encoded.
type counted struct {
	value            int
	decoded, encoded *int
}

func (c *counted) UnmarshalJSON(text []byte) error {
	*c.decoded++
	return json.Unmarshal(text, &c.value)
}

func (c counted) MarshalJSON() ([]byte, error) {
	*c.encoded++
	return json.Marshal(c.value)
}

// counting is a policy of one job, and a shared one, whose parameter counts.
type counting struct {
	Most counted `json:"most,omitempty" desc:"how many there are"`
}

func (counting) Kind() string                                      { return "counting" }
func (counting) Next(*esl.State) esl.Plan                          { return esl.Plan{} }
func (counting) Use(*esl.Group, esl.Use) error                     { return nil }
func (c counting) Apply(*esl.Group) error                          { return c.check() }
func (c counting) Declare(string) ([]controlplane.Resource, error) { return nil, c.check() }

// check refuses parameters that were not decoded exactly once.
func (c counting) check() error {
	if *c.Most.decoded != 1 || c.Most.value != 2 {
		return esl.Invalid("most: %d was decoded %d times", c.Most.value, *c.Most.decoded)
	}
	return nil
}

// TestParametersAreDecodedOnce follows parameters from a file to Apply, Declare and the store.
func TestParametersAreDecodedOnce(t *testing.T) {
	for text, encodings := range map[string]int{
		// For the comparison with what is stored, and for the store.
		train + "policies: [{name: counting, with: {most: 2}}]\n": 2,
		// Both are the same form.
		header + "kind: Policy\nname: all\npolicy: {name: counting, with: {most: 2}}\n": 1,
	} {
		w := newWorld(t)
		var decoded, encoded int
		empty := counting{Most: counted{decoded: &decoded, encoded: &encoded}}
		docs, err := manifest.Parse("f", []byte(text), manifest.Policies{
			"counting": {New: func() any { made := empty; return &made }, Job: true, Shared: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		d, err := apply.Decide(cluster.New(), "team", nil, docs, time.Now(), apply.Options{})
		if err == nil {
			err = d.Expand(t.Context(), &esl.Client{Client: w.Client, Kinds: esl.Kinds{}.With(func() esl.Policy { return empty })})
		}
		if err == nil {
			err = d.Perform(t.Context(), w.Client)
		}
		if err != nil || decoded != 1 || encoded != encodings {
			t.Errorf("%s: decoded %d times, encoded %d times, %v", text, decoded, encoded, err)
		}
	}
}
