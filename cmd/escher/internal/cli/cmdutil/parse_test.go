package cmdutil

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/types"
)

func TestParse(t *testing.T) {
	requests, err := ParseRequests("request", []string{"b=500m,a=inf", "memory=1Gi"})
	if err != nil || render.RequestsText(requests) != "a=inf,b=0.5,memory=1Gi" {
		t.Errorf("requests: %v, %v", requests, err)
	}
	a, err := ParseAlternative("gpu=1,after=3s,x@r=2")
	if err != nil || a.After != 3*time.Second || render.RequestsText(a.Requests) != "gpu=1,x@r=2" {
		t.Errorf("alternative: %+v, %v", a, err)
	}
	for text, want := range map[string]types.Provide{
		"x=1":           {Name: "x", Amount: 1000, When: types.WhenRunning},
		"x=0.5@bound":   {Name: "x", Amount: 500, When: types.WhenBound},
		"x=2@succeeded": {Name: "x", Amount: 2000, When: types.WhenSucceeded},
	} {
		if p, err := ParseProvide(text); err != nil || p != want {
			t.Errorf("provide %s: %+v, %v", text, p, err)
		}
	}
	b, err := ParseBundle("cpu=2,memory=1Gi@node-1")
	if err != nil || b.Node != "node-1" || render.RequestsText(b.Requests) != "cpu=2,memory=1Gi" {
		t.Errorf("bundle: %+v, %v", b, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, x := range []struct {
		parse func(string) error
		text  string
		says  string
	}{
		{func(s string) error { _, err := ParseRequests("request", []string{s}); return err }, "x=1,x=2", "x is given twice"},
		{func(s string) error { _, err := ParseRequests("request", []string{s}); return err }, "=1", "write name=amount"},
		{func(s string) error { _, err := ParseAlternative(s); return err }, "x=1,after=1", "write it like 3s"},
		{func(s string) error { _, err := ParseProvide(s); return err }, "x", "write it like x=1@running"},
		{func(s string) error { _, err := ParseBundle(s); return err }, "cpu", "bundle: \"cpu\" is no request"},
	} {
		if err := x.parse(x.text); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", x.text, err)
		}
	}
}

func TestShortly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 90 * time.Second: "90s", 3 * time.Minute: "3m", 5 * time.Hour: "5h", 72 * time.Hour: "3d",
	} {
		if got := render.Shortly(d); got != want {
			t.Errorf("%s: %s", d, got)
		}
	}
}
