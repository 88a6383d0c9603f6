package cli

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestEmptyFlags: a flag with an empty value does not leave its policy out.
func TestEmptyFlags(t *testing.T) {
	for _, flag := range []string{"queue", "share", "semaphore", "spread", "together", "colocate-with", "near", "on-loss", "prefer"} {
		p := flagsOf(t, "--"+flag, "")
		if made, err := p.Policies(); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), `"" `) || len(made) > 0 {
			t.Errorf("--%s '': %v, %v", flag, made, err)
		}
	}
	p := flagsOf(t, "--aging", "0s")
	if made, err := p.Policies(); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), "aging: 0s") {
		t.Errorf("--aging 0s: %v, %v", made, err)
	}
}

// TestWrongPlaces: no preferred place is ignored silently.
func TestWrongPlaces(t *testing.T) {
	for places, want := range map[string]string{
		"node/n1,node/n2":               `prefer: "node/n1,node/n2": node is there twice: drop one, or repeat --prefer for another place`,
		"rack/r,after=1s,after=2s":      `prefer: "rack/r,after=1s,after=2s": after is there twice`,
		"label/disk=a,label/disk=b":     `prefer: "label/disk=a,label/disk=b": disk is there twice`,
		"gpu=1,gpu=2":                   `prefer: "gpu=1,gpu=2": gpu is there twice`,
		"rack/r anywhere,zone/z":        `prefer: "anywhere,zone/z": anywhere is any place, and the rest says which`,
		"anywhere,after=1s rack/r":      `prefer: anywhere is any place, and "rack/r" follows: give it last`,
		"anywhere,after=1s":             `prefer: anywhere prefers no place: give one before it`,
		"rack/r anywhere,after=1s,gpu=": `prefer: "anywhere,after=1s,gpu=": anywhere is any place`,
	} {
		var args []string
		for place := range strings.FieldsSeq(places) {
			args = append(args, "--prefer", place)
		}
		p := flagsOf(t, args...)
		if made, err := p.Policies(); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), want) || len(made) > 0 {
			t.Errorf("%s: %v, %v, want %s", places, made, err, want)
		}
	}
}
