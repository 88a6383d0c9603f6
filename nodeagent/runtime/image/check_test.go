package image_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/nodeagent/runtime/image"
	"github.com/escher-sched/escher/types"
)

func TestCheckOfAnImage(t *testing.T) {
	usual := func(command ...string) *types.Check {
		return &types.Check{Name: "image", Exec: command, Every: 30 * time.Second, Timeout: 30 * time.Second, Failures: 3, Then: types.ThenReport}
	}
	quick := usual("curl", "-f", "localhost")
	quick.Every, quick.Timeout, quick.StartPeriod, quick.Failures = time.Second, 5*time.Second, time.Minute, 1000
	for config, want := range map[string]*types.Check{
		`{}`:                             nil,
		`{"config": {}}`:                 nil,
		`no JSON`:                        nil,
		`{"config": {"Healthcheck": 5}}`: nil,
		`{"config": {"Healthcheck": {"Test": []}}}`:                                                nil,
		`{"config": {"Healthcheck": {"Test": ["NONE"]}}}`:                                          nil,
		`{"config": {"Healthcheck": {"Test": ["CMD"]}}}`:                                           nil,
		`{"config": {"Healthcheck": {"Test": ["CMD", ""]}}}`:                                       nil,
		`{"config": {"Healthcheck": {"Test": ["LATER", "x"]}}}`:                                    nil,
		`{"config": {"Healthcheck": {"Test": ["CMD", "/bin/check"]}}}`:                             usual("/bin/check"),
		`{"config": {"Healthcheck": {"Test": ["CMD-SHELL", "a | b"]}}}`:                            usual("/bin/sh", "-c", "a | b"),
		`{"config": {"Shell": ["/bin/bash", "-ec"], "Healthcheck": {"Test": ["CMD-SHELL", "a"]}}}`: usual("/bin/bash", "-ec", "a"),
		`{"config": {"Healthcheck": {"Test": ["CMD", "curl", "-f", "localhost"], "Interval": 1000000, "Timeout": 5000000000,
			"StartPeriod": 60000000000, "Retries": 1000000}}}`: quick,
		`{"config": {"Healthcheck": {"Test": ["CMD", "` + strings.Repeat("x", types.MaxCheckWords+1) + `"]}}}`: nil,
	} {
		got := image.Check([]byte(config))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%.100s: got %+v, want %+v", config, got, want)
		}
		if got == nil {
			continue
		}
		if err := (&types.Spec{Image: "i", Checks: []types.Check{*got}}).Validate(); err != nil {
			t.Errorf("%.100s: %v", config, err)
		}
	}
	negative := image.Check([]byte(`{"config": {"Healthcheck": {"Test": ["CMD", "a"], "Interval": -1, "Timeout": -1, "StartPeriod": -1, "Retries": -1}}}`))
	if err := (&types.Spec{Image: "i", Checks: []types.Check{*negative}}).Validate(); err != nil {
		t.Error(err)
	}
}
