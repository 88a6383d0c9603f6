package render

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

func TestPhaseText(t *testing.T) {
	for _, x := range []struct {
		phase  types.Phase
		health types.Health
		want   string
	}{
		{types.Running, types.Healthy, "running (healthy)"},
		{types.Running, "", "running"},
		{types.Failed, types.Unhealthy, "failed"},
		{types.Pending, types.Healthy, "pending"},
	} {
		if got := PhaseText(x.phase, x.health); got != x.want {
			t.Errorf("%s, %s: %q, want %q", x.phase, x.health, got, x.want)
		}
	}
}

// TestShortlyAtItsBounds changes the unit where two of the larger one are full, and rounds down.
func TestShortlyAtItsBounds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second - 1: "0s", 2*time.Minute - 1: "119s", 2 * time.Minute: "2m", 2*time.Hour - 1: "119m", 2 * time.Hour: "2h",
		48*time.Hour - 1: "47h", 48 * time.Hour: "2d", 72*time.Hour - 1: "2d", 1<<63 - 1: "106751d", -1 << 63: "0s",
	} {
		if got := Shortly(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

func TestWhen(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, x := range []struct {
		at   time.Duration
		want string
	}{
		{-90 * time.Second, "2026-03-01T11:58:30Z (90s ago)"},
		{0, "2026-03-01T12:00:00Z (0s ago)"},
		{3 * time.Hour, "2026-03-01T15:00:00Z (in 3h)"},
	} {
		if got := When(now.Add(x.at).UnixNano(), now); got != x.want {
			t.Errorf("%s: %s, want %s", x.at, got, x.want)
		}
	}
	if got := When(0, now); got != "" {
		t.Errorf("no time is %q", got)
	}
	if got := Duration(0) + Duration(90*time.Second); got != "1m30s" {
		t.Errorf("durations: %q", got)
	}
}

// TestCommandText quotes what a shell would change, and nothing else.
func TestCommandText(t *testing.T) {
	for want, command := range map[string][]string{
		"":                            nil,
		"/bin/app --rate=5% a,b @x":   {"/bin/app", "--rate=5%", "a,b", "@x"},
		"''":                          {""},
		`sh -c 'echo "$HOME"; exit'`:  {"sh", "-c", `echo "$HOME"; exit`},
		`echo 'it'\''s' 'a b' 'c\d'`:  {"echo", "it's", "a b", `c\d`},
		"ls '*.go' '~' '{a,b}' '[x]'": {"ls", "*.go", "~", "{a,b}", "[x]"},
		"echo 'a\nb' '#c' '!d' 'x&y'": {"echo", "a\nb", "#c", "!d", "x&y"},
	} {
		if got := CommandText(command); got != want {
			t.Errorf("%q: %s, want %s", command, got, want)
		}
	}
}

func TestMountText(t *testing.T) {
	for want, m := range map[string]types.Mount{
		"/data:/in:ro": {Source: "/data", Target: "/in", ReadOnly: true},
		"/data:/in":    {Source: "/data", Target: "/in"},
		"scratch:/tmp": {Target: "/tmp"},
	} {
		if got := MountText(m); got != want {
			t.Errorf("%+v: %s, want %s", m, got, want)
		}
	}
}

func TestRestartText(t *testing.T) {
	for want, r := range map[string]*types.Restart{
		"never":        nil,
		"always":       {When: types.RestartAlways},
		"on-failure:5": {When: types.RestartOnFailure, Limit: 5},
		"always, first after 2s, at most 1m0s apart": {When: types.RestartAlways, Delay: 2 * time.Second, MaxDelay: time.Minute},
	} {
		if got := RestartText(r); got != want {
			t.Errorf("%+v: %s, want %s", r, got, want)
		}
	}
}

func TestHoldingText(t *testing.T) {
	for want, h := range map[string]types.Holding{
		"cpu=0.5":          {Resource: types.CPU, Amount: 500},
		"memory=1Gi":       {Resource: types.Memory, Amount: 1 << 30},
		"gpu=1.5 (g0, g1)": {Resource: types.GPU, Amount: 1500, Devices: []types.DeviceShare{{ID: "g0", Share: 1000}, {ID: "g1", Share: 500}}},
	} {
		if got := HoldingText(h, "d"); got != want {
			t.Errorf("%+v: %s, want %s", h, got, want)
		}
	}
}

func TestNeedsText(t *testing.T) {
	requests := types.NewRequests(map[string]types.Quantity{"gpu": 2000, "memory": 1 << 20})
	devices := []types.DeviceRequest{{Resource: "gpu", Models: []string{"H100", "A100"}, MinMemory: 40 << 30}}
	const gpus = "gpu of model H100 or A100, with at least 40Gi memory"
	for _, x := range []struct {
		requests types.Requests
		devices  []types.DeviceRequest
		want     string
	}{
		{nil, nil, ""},
		{requests, nil, "gpu=2,memory=1Mi"},
		{nil, devices, gpus},
		{requests, devices, "gpu=2,memory=1Mi; " + gpus},
	} {
		if got := NeedsText(x.requests, x.devices); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

// TestWithCode expects no code of a task that never ran.
func TestWithCode(t *testing.T) {
	for _, x := range []struct {
		status types.Status
		want   string
	}{
		{types.Status{Phase: types.Failed}, ""},
		{types.Status{Phase: types.Failed, ExitCode: 127}, " with exit code 127"},
		{types.Status{Phase: types.Failed, Started: 1}, " with exit code 0"},
	} {
		if got := WithCode(&x.status); got != x.want {
			t.Errorf("%+v: %q, want %q", x.status, got, x.want)
		}
	}
}

func TestUntilText(t *testing.T) {
	for text, until := range Untils() {
		if got := UntilText(until); got != text {
			t.Errorf("%s is %q", text, got)
		}
	}
	if got := UntilText(controlplane.Until(99)); got != "" {
		t.Errorf("an unknown condition is %q", got)
	}
}

// TestUsageText leaves out unknown values, and counts devices that tell both values only.
func TestUsageText(t *testing.T) {
	devices := []measured.Device{
		{MemoryBytes: new(int64(1 << 30))},
		{BusyPercent: new(10.0), MemoryBytes: new(int64(0)), MemoryTotalBytes: new(int64(16 << 30))},
		{BusyPercent: new(35.0), MemoryTotalBytes: new(int64(16 << 30))},
	}
	for want, got := range map[string]string{
		"1.50":      CoresText(new(1499.9)),
		"1.0Ki":     BytesText(new(int64(1000))),
		"9.8Ki":     BytesText(new(int64(10_000))),
		"98Ki":      BytesText(new(int64(100_000))),
		"8388608Ti": BytesText(new(int64(1<<63 - 1))),
		"3B":        RateText(new(2.5)),
		"22%":       BusyText(devices),
		"0B/16Gi":   DeviceMemoryText(devices),
		"200%":      OfLimitText(measured.Use{MemoryBytes: new(int64(20)), MemoryLimitBytes: new(int64(10))}),
		"cpu 1%":    PressureText(&measured.Pressure{CPU: &measured.Stall{SomePercent10s: 0.5001}, IO: new(measured.Stall)}),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for name, got := range map[string]string{
		"busy":     BusyText(devices[:1]),
		"memory":   DeviceMemoryText(devices[:1]),
		"limit":    OfLimitText(measured.Use{MemoryBytes: new(int64(20))}),
		"pressure": PressureText(new(measured.Pressure)) + PressureText(nil),
	} {
		if got != "" {
			t.Errorf("unknown %s is %q", name, got)
		}
	}
}

// TestSheet aligns the lines of a group, leaves out empty ones, and escapes what tasks wrote.
func TestSheet(t *testing.T) {
	var out strings.Builder
	s := NewSheet(&out)
	s.Line("Task", "a-1")
	s.Line("Job", "")
	s.Line("Reason", "two\nlines\x1b")
	s.Group("Needs")
	s.Lines("  devices", []string{"g0", "g1"})
	s.Lines("  mounts", nil)
	s.Text("Nothing", nil)
	s.Text("Events", []string{"one", "two\tthree"})
	const want = `Task    a-1
Reason  two lines\u001b

Needs
  devices  g0
           g1

Events
  one
  two three
`
	if err := s.End(); err != nil || out.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, &out, want)
	}
	full := NewSheet(broken{})
	full.Line("Task", "a-1")
	full.Flush()
	if err := full.End(); !errors.Is(err, errFull) {
		t.Errorf("a sheet that cannot be written ends with %v", err)
	}
}

var errFull = errors.New("no space")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errFull }
