package types

import (
	"strings"
	"testing"
	"time"
)

// refusal checks that err is Invalid and contains each of the texts.
func refusal(t *testing.T, err error, texts ...string) {
	t.Helper()
	if !Is(err, Invalid) {
		t.Fatalf("got %v, want it refused", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
}

func TestValidateName(t *testing.T) {
	for _, name := range []string{"a", "web-3", "A.b_c-9", strings.Repeat("x", MaxName)} {
		if err := ValidateName("id", name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, remedy := range map[string]string{
		"":                       "give it a name",
		strings.Repeat("x", 300): "shorten it",
		strings.Repeat("x", 64):  "shorten it",
		"a/b":                    `'/'`,
		"a b":                    `' '`,
		"a\nb":                   "letters, digits",
		"ü":                      `'ü'`,
		"a@b":                    `'@'`, "a:b": `':'`, "+": `'+'`, "*": `'*'`,
		"\xff": "letters, digits",
		"-a":   "rename it", "a-": "rename it", ".": "rename it", "..": "rename it", "_a": "rename it",
	} {
		err := ValidateName("the id", name)
		refusal(t, err, "the id: ", remedy)
		if len(err.Error()) > 200 {
			t.Errorf("%.20q: the error has %d bytes", name, len(err.Error()))
		}
	}
}

func TestValidateEphemeral(t *testing.T) {
	if err := ValidateEphemeral("name", "co_location"); err != nil {
		t.Error(err)
	}
	for name, remedy := range map[string]string{
		"cpu": "physical", "memory": "physical", "disk": "physical", "gpu": "physical", "acme.com/fpga": "physical",
		"node/n1": "physical", "a/b": "physical", "gpu@train": "Reserve", "a b": "letters, digits", "": "give it a name",
		"other:x": "letters, digits",
	} {
		refusal(t, ValidateEphemeral("name", name), "name: ", remedy)
	}
}

func TestValidateRequests(t *testing.T) {
	good := NewRequests(map[string]Quantity{"cpu": 1, "co_location": 1000, "gpu@train": 500, "acme.com/fpga": 1, "acme.com/fpga@train": 1, "node/n1": 1, "rack/r7": 1, "zone/a": 1})
	if err := good.Validate("requests"); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		r    Requests
		says []string
	}{
		{Requests{{"cpu", 0}}, []string{"requests.cpu: 0 is not positive", "leave it out"}},
		{Requests{{"cpu", -500}}, []string{"requests.cpu: -0.5 is not positive"}},
		{Requests{{"cpu", Inf}}, []string{"inf cannot be requested", "bounded"}},
		{Requests{{"cpu", MaxQuantity + 1}}, []string{"bounded"}},
		{Requests{{"cpu", 1}, {"cpu", 1}}, []string{"twice"}},
		{Requests{{"gpu", 1}, {"cpu", 1}}, []string{"not in order", "NewRequests"}},
		{Requests{{"a b", 1}, {"c", 0}}, []string{`requests.a b: "a b" contains ' '`, "requests.c: 0"}},
		{Requests{{"foo/bar", 1}}, []string{"of a domain", "correct it"}},
		{Requests{{"node/a/b", 1}}, []string{"'/'"}},
		{Requests{{"node/n1@train", 1}}, []string{"placement", `request "node/n1"`}},
		{Requests{{"gpu@", 1}}, []string{"is empty"}},
		{Requests{{"gpu@a@b", 1}}, []string{"'@'"}},
		{Requests{{"@train", 1}}, []string{"is empty"}},
		{Requests{{"other:x", 1}}, []string{"':'"}},
		{many(MaxRequests + 1), []string{"has 101 resources", "at most 100", "fewer"}},
	} {
		refusal(t, c.r.Validate("requests"), c.says...)
	}
}

// many returns a vector of n resources.
func many(n int) Requests {
	r := make(Requests, n)
	for i := range r {
		r[i] = Request{"r" + strings.Repeat("0", i), 1}
		r[i].Name = r[i].Name[:1] + string(rune('a'+i/26)) + string(rune('a'+i%26))
	}
	return r
}

// goodTask returns a task that uses every field and is valid.
func goodTask() Task {
	return Task{
		Name: "web", Requests: Requests{{"cpu", 100}}, Scheduler: "mine", Session: "s-1", OnDisconnect: Keep, MaxRun: time.Hour, Priority: -3,
		Alternatives: []Alternative{{Requests: Requests{{"near", 1000}}}, {After: 3 * time.Second}},
		Provides:     []Provide{{"here", 1000, WhenRunning}, {"done", Inf, WhenSucceeded}, {"bound", 1, WhenBound}},
	}
}

func TestValidateTask(t *testing.T) {
	good := goodTask()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(*Task)
		says  []string
	}{
		"name":          {func(t *Task) { t.Name = "a/b" }, []string{"name: ", "use letters"}},
		"scheduler":     {func(t *Task) { t.Scheduler = "-" }, []string{"scheduler: ", "rename"}},
		"session":       {func(t *Task) { t.Session = " " }, []string{"session: ", "use letters"}},
		"requests":      {func(t *Task) { t.Requests = Requests{{"cpu", -1}} }, []string{"requests.cpu: -0.001"}},
		"alternatives":  {func(t *Task) { t.Alternatives = make([]Alternative, 17) }, []string{"alternatives: has 17", "drop some"}},
		"alternative":   {func(t *Task) { t.Alternatives[1].Requests = Requests{{"cpu", 0}} }, []string{"alternatives[1].cpu: 0"}},
		"after":         {func(t *Task) { t.Alternatives[1].After = -1 }, []string{"alternatives[1].after: -1ns is negative"}},
		"sum":           {func(t *Task) { t.Alternatives[0].Requests = many(MaxRequests) }, []string{"alternatives[0]: asks, with requests, for 101"}},
		"max run":       {func(t *Task) { t.MaxRun = -time.Second }, []string{"max run: -1s is negative"}},
		"on disconnect": {func(t *Task) { t.OnDisconnect = "retry" }, []string{`on disconnect: "retry" is unknown`, `use fence, stop or keep`}},
		"provides":      {func(t *Task) { t.Provides = make([]Provide, 101) }, []string{"provides: has 101", "drop some"}},
		"physical":      {func(t *Task) { t.Provides[0].Name = "gpu" }, []string{"provides[0].name: ", "physical"}},
		"amount":        {func(t *Task) { t.Provides[0].Amount = 0 }, []string{"provides[0].amount: 0 is not positive"}},
		"large":         {func(t *Task) { t.Provides[0].Amount = Inf - 1 }, []string{"provides[0].amount: ", "too large", "inf means no bound"}},
		"when":          {func(t *Task) { t.Provides[0].When = "" }, []string{`provides[0].when: "" is unknown`, "bound, running, healthy or succeeded"}},
		"choice":        {func(t *Task) { t.Accumulate = true }, []string{"accumulate: the task also has alternatives", "give one of the two"}},
		"nothing":       {func(t *Task) { t.Accumulate, t.Alternatives, t.Requests = true, nil, nil }, []string{"accumulate: the task requests nothing to collect"}},
		"drawn":         {func(t *Task) { t.Accumulate, t.Alternatives, t.Requests = true, nil, Requests{{"cpu@r", 1}} }, []string{`accumulate: "cpu@r" is held`, "let the reservation"}},
		"twice":         {func(t *Task) { t.Provides[1].Name = "here" }, []string{`provides[1].name: "here" is provided twice`, "add the amounts up"}},
	} {
		bad := goodTask()
		c.spoil(&bad)
		t.Run(name, func(t *testing.T) { refusal(t, bad.Validate(), c.says...) })
	}
}

func TestValidateTellsEverythingAtOnce(t *testing.T) {
	bad := Task{Name: "a b", Requests: Requests{{"cpu", 0}}, OnDisconnect: "x", MaxRun: -1}
	refusal(t, bad.Validate(), "name: ", "requests.cpu: ", "on disconnect: ", "max run: ")
}

func TestValidateSpec(t *testing.T) {
	good := Spec{Image: "docker.io/library/busybox:1.36", Command: []string{"sh", "-c", ""}, Env: []string{"A=", "B=x=y"}, Dir: "/tmp", User: "1:2", Grace: time.Second}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(*Spec)
		says  []string
	}{
		"image":       {func(s *Spec) { s.Image = "" }, []string{"image: is empty", "name the image"}},
		"white space": {func(s *Spec) { s.Image = "a b" }, []string{"image: ", "white space", "write a reference"}},
		"env":         {func(s *Spec) { s.Env = []string{"OK=1", "=x"} }, []string{`env[1]: "=x" is not NAME=value`}},
		"env text":    {func(s *Spec) { s.Env = []string{"A=\xff"} }, []string{"env[0]: ", "not UTF-8"}},
		"command":     {func(s *Spec) { s.Command = []string{"a", "b\x00"} }, []string{"command[1]: ", "zero byte", "leave it out"}},
		"dir":         {func(s *Spec) { s.Dir = "tmp" }, []string{`dir: "tmp" is not absolute`}},
		"user":        {func(s *Spec) { s.User = "\xc3" }, []string{"user: ", "not UTF-8"}},
		"grace":       {func(s *Spec) { s.Grace = -1 }, []string{"grace: -1ns is negative"}},
		"2 MB":        {func(s *Spec) { s.Env = []string{"A=" + strings.Repeat("x", 2<<20)} }, []string{"env: has 2097155 bytes", "at most 131072", "image or a file"}},
	} {
		bad := good
		c.spoil(&bad)
		t.Run(name, func(t *testing.T) { refusal(t, bad.Validate(), c.says...) })
	}
}

func TestValidateReservation(t *testing.T) {
	gpu := Requests{{"gpu", 1000}}
	good := Reservation{Bundles: []Bundle{{Requests: gpu}, {Requests: gpu, Node: "n1"}}}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	refusal(t, (&Reservation{}).Validate(), "bundles: is empty", "at least one")
	refusal(t, (&Reservation{Bundles: make([]Bundle, MaxBundles+1)}).Validate(), "bundles: has 4097", "split")
	refusal(t, (&Reservation{Bundles: []Bundle{{}}}).Validate(), "bundles[0].requests: is empty", "something to lock")
	refusal(t, (&Reservation{Bundles: []Bundle{{Requests: gpu, Node: "a/b"}}}).Validate(), "bundles[0].node: ")
	wrong := Bundle{Requests: Requests{{"gpu", -1}}}
	refusal(t, (&Reservation{Bundles: []Bundle{{Requests: gpu}, {Requests: gpu}, wrong, wrong, {Requests: gpu}, {Requests: gpu, Node: "a/b"}}}).Validate(),
		"bundles[2].requests.gpu: ", "bundles[3].requests.gpu: ", "bundles[5].node: ")
	refusal(t, (&Reservation{Bundles: []Bundle{{Requests: Requests{{"gpu@x", 1}}}}}).Validate(), "bundles[0].requests: ", `request "gpu"`)
	refusal(t, (&Reservation{Bundles: []Bundle{{Requests: Requests{{"gpu", -1}}}}}).Validate(), "bundles[0].requests.gpu: ")
}

func TestRetriesAreNotNegative(t *testing.T) {
	good, bad := Task{Retries: 3}, Task{Retries: -1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if err := bad.Validate(); !Is(err, Invalid) || !strings.Contains(err.Error(), "retries: -1") {
		t.Error(err)
	}
}
