package flagset

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestSizesOfMemory parses file systems in memory, and the size of shared memory.
func TestSizesOfMemory(t *testing.T) {
	for text, want := range map[string]types.Tmpfs{
		"/a": {Target: "/a"}, "/a/": {Target: "/a"}, "/a:size=64Mi": {Target: "/a", Size: 64 << 20}, "/a:size=64m": {Target: "/a", Size: 64 << 20}, "/a:size=1g": {Target: "/a", Size: 1 << 30}, "/a:size=7b": {Target: "/a", Size: 7}, "/a:size=1G": {Target: "/a", Size: 1e9},
	} {
		if got, err := parseTmpfs(text); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"/a:mode=1777": `"mode=1777" is unknown: write PATH or PATH:size=64Mi`, "/a:size=5": "has no unit", "/a:size=0": "not a size", "/a:": `"" is unknown`, "/a:size=x": "not a quantity",
	} {
		if _, err := parseTmpfs(text); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %s", text, err, says)
		}
	}
	if q, err := parseShm("8g"); err != nil || q != 8<<30 {
		t.Errorf("got %d, %v", q, err)
	}
	if _, err := parseShm("-1Gi"); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "shm-size: ") || !strings.Contains(err.Error(), "not a size") {
		t.Errorf("a negative size: %v", err)
	}
}

// TestLimitsAndCapabilities parses limits of processes, and names of capabilities.
func TestLimitsAndCapabilities(t *testing.T) {
	for text, want := range map[string]string{"net_admin": "NET_ADMIN", "CAP_SYS_TIME": "SYS_TIME", "cap_kill": "KILL", "all": "ALL"} {
		if got, err := parseCapability("cap-add", text); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	_, err := parseCapability("cap-add", "fly")
	if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), `cap-add: "fly" is not a capability`) {
		t.Errorf("an unknown capability: %v", err)
	}
	for text, want := range map[string]types.Ulimit{
		"memlock=-1": {Name: "memlock", Soft: -1, Hard: -1}, "memlock=unlimited": {Name: "memlock", Soft: -1, Hard: -1}, "nofile=5:6": {Name: "nofile", Soft: 5, Hard: 6}, "core=0": {Name: "core", Soft: 0, Hard: 0}, "stack=8:-1": {Name: "stack", Soft: 8, Hard: -1},
	} {
		got, err := parseUlimit(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
		if soft, hard, err := types.ParseLimits(got.Limits()); err != nil || soft != want.Soft || hard != want.Hard {
			t.Errorf("%s came back as %d:%d, %v", text, soft, hard, err)
		}
	}
	for text, says := range map[string]string{
		"memlock": "has no limit", "memlock=x": `"x" is not a limit`, "memlock=-2": "is not a limit", "files=5": "ulimit.files: is not a limit of processes: use core", "nofile=6:5": "is above the hard one",
		"nofile=1:": `"" is not a limit`, "=5": "is not a limit of processes",
	} {
		if _, err := parseUlimit(text); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %s", text, err, says)
		}
	}
}
