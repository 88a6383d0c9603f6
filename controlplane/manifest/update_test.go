package manifest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

func TestUpdateDefaults(t *testing.T) {
	want := manifest.Update{AtOnce: 1, Order: manifest.StopFirst, Healthy: types.Duration(10 * time.Second), Timeout: types.Duration(10 * time.Minute)}
	if got := (*manifest.Update)(nil).WithDefaults(); got != want {
		t.Errorf("got %+v", got)
	}
	given := manifest.Update{AtOnce: 3, Order: manifest.StartFirst, Healthy: 1, Timeout: 2}
	if got := given.WithDefaults(); got != given {
		t.Errorf("got %+v", got)
	}
}

func TestUpdateIsChecked(t *testing.T) {
	const job = "apiVersion: escher.dev/v1\nkind: Job\nname: j\ntemplate: {spec: {image: x}}\n"
	for text, want := range map[string]string{
		"update: {}": "",
		"count: 3\nupdate: {atOnce: 3, order: start-first, healthy: 1m, timeout: 1h}": "",
		"update: {atOnce: 0}":               "update.atOnce: 0 would replace none: give 1 or more, or leave it out for 1",
		"update: {atOnce: -1}":              "update.atOnce: -1 is out of range: give 1 to 100000",
		"update: {atOnce: 100001}":          "update.atOnce: 100001 is out of range",
		"update: {order: first}":            `update.order: "first" is unknown: use stop-first or start-first`,
		"update: {healthy: 0s}":             "update.healthy: 0s is not a duration: give one above zero, or leave it out for 10s",
		"update: {healthy: -1s}":            "update.healthy: -1s is negative: give a time",
		"update: {timeout: 200h}":           "update.timeout: 200h0m0s is out of range: give at most 168h0m0s",
		"update: {parallelism: 2}":          "update.parallelism: is unknown",
		"update: start-first":               "update",
		"array: {indices: 0-3}\nupdate: {}": "update: belongs to a job with a count, and an array only gets further indices: leave one of them out",
	} {
		_, err := manifest.Parse("f", []byte(job+text+"\n"), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
