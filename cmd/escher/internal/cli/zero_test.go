package cli

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/manifest"
)

// TestWrittenZero: a limit or weight of 0 that is written is not taken as if it were left out.
func TestWrittenZero(t *testing.T) {
	for with, want := range map[string]string{
		"queue, with: {limit: 0}":                         "policy.with.limit: 0 is not without limit",
		"queue, with: {rate: 0, limit: 3}":                "policy.with.rate: 0 is not without limit",
		"fair-share, with: {of: {a: {weight: 0}}}":        "policy.with.of.a.weight: 0 is no part",
		"fair-share, with: {of: {a: {}, b: {weight: 2}}}": "",
		"queue, with: {closed: true}":                     "",
	} {
		_, err := manifest.Parse("f", []byte("apiVersion: escher.dev/v1\nkind: Policy\nname: q\npolicy: {name: "+with+"}\n"), knownPolicies())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", with, err, want)
		}
	}
}
