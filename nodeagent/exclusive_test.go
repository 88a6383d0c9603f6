package nodeagent

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/types"
)

func TestMayHave(t *testing.T) {
	known := []types.Device{{ID: "g0"}, {ID: "g1"}, {ID: "sick", Unhealthy: "too hot"}, {ID: "gone", Unhealthy: devices.Gone}, {ID: "moved", Unhealthy: devices.Moved}}
	shares := func(text string) []types.DeviceShare {
		var all []types.DeviceShare
		for _, word := range strings.Fields(text) {
			id, half := strings.CutSuffix(word, "/2")
			s := types.DeviceShare{ID: id, Share: 1000}
			if half {
				s.Share = 500
			}
			all = append(all, s)
		}
		return all
	}
	for name, c := range map[string]struct {
		wanted string
		others []string
		want   string
	}{
		"nothing":            {"", []string{"g0"}, ""},
		"free":               {"g0 g1", nil, ""},
		"another's":          {"g0", []string{"g1"}, ""},
		"held":               {"g0 g1", []string{"g1"}, "g1: it is held by o0"},
		"held, for a part":   {"g0/2", []string{"g0"}, "g0: it is held by o0"},
		"a part, for all":    {"g0", []string{"g0/2"}, "g0: it is held by o0"},
		"parts":              {"g0/2", []string{"g0/2"}, ""},
		"too many parts":     {"g0/2", []string{"g0/2", "g0/2"}, "g0: it is held by o0 and o1"},
		"unhealthy":          {"g0 sick", nil, "sick: it is unhealthy: too hot"},
		"gone":               {"gone", nil, "gone: it is gone"},
		"renamed":            {"moved", nil, "moved: it is gone"},
		"not of this node":   {"g7", nil, "g7: this node does not have it any more"},
		"held and unhealthy": {"sick", []string{"sick"}, "unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			var others []holder
			for i, text := range c.others {
				others = append(others, holder{attempt: "o" + string(rune('0'+i)), shares: shares(text)})
			}
			err := mayHave(shares(c.wanted), known, others)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}
