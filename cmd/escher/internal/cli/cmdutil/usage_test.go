package cmdutil

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/types"
)

// TestFlagErrors says of each wrong flag what to write instead.
func TestFlagErrors(t *testing.T) {
	for _, x := range []struct {
		arg  string
		runs bool
		says string
	}{
		{"--grace=5", false, `grace: "5" is no duration, or too long a one: write it with a unit, such as 5s, 10m or 2h`},
		{"--grace=99999999h", false, "or too long a one"},
		{"--grace=0", false, "grace: 0 is out of range: give a time above 0s"},
		{"--grace=0ms", false, "grace: 0ms is out of range"},
		{"--count=1.5", false, `count: "1.5" is no number: write a whole one`},
		{"--all=perhaps", false, `all: "perhaps" is neither true nor false: write --all, or leave it out`},
		{"--replicas=3", false, "write --count 4"},
		{"--gres=gpu:1", false, "unknown flag: --gres: x --help lists the flags"},
		{"--rate=3", true, "x --help lists the flags; write -- before a program that has flags"},
		{"-N", true, "x --help lists the flags; write -- before"},
		{"--count", false, "flag needs an argument: --count: x --help lists the flags"},
	} {
		cmd := &cobra.Command{Use: "x"}
		flags := cmd.Flags()
		flags.Int("count", 1, "")
		flags.Bool("all", false, "")
		flags.Duration("grace", 0, "")
		Preset(flags, "grace", "10s", "give a time above 0s")
		if x.runs {
			flags.String("entrypoint", "", "")
		}
		err := FlagError(cmd, flags.Parse([]string{x.arg}))
		if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v, want %q", x.arg, err, x.says)
		}
	}
}

// TestPreset shows a default that the value does not have, and takes values that are not 0.
func TestPreset(t *testing.T) {
	flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
	retries := flags.Int("retries", 0, "tries")
	Preset(flags, "retries", "3", "give more")
	if usage := flags.FlagUsages(); !strings.Contains(usage, "(default 3)") || *retries != 0 {
		t.Errorf("%s, value %d", usage, *retries)
	}
	if err := flags.Parse([]string{"--retries", "7"}); err != nil || *retries != 7 {
		t.Errorf("%d, %v", *retries, err)
	}
	if err := flags.Set("retries", "0x0"); err == nil || !strings.Contains(err.Error(), "retries: 0x0 is out of range: give more") {
		t.Errorf("a zero in other words: %v", err)
	}
}

// TestHeadings orders flags by their headings, puts the others below the rest, and hides what is hidden.
func TestHeadings(t *testing.T) {
	cmd := &cobra.Command{Use: "x", Run: func(*cobra.Command, []string) {}}
	flags := cmd.Flags()
	for _, name := range []string{"a", "b", "z", "secret", "other"} {
		flags.String(name, "", "about "+name)
	}
	if err := flags.MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	SetHeadings(cmd, "Rest", Heading{"First", []string{"z", "a"}}, Heading{"Empty", nil}, Heading{"Rest", []string{"b"}})
	titles, sets := FlagSets(cmd)
	var got []string
	for _, title := range titles {
		sets[title].VisitAll(func(f *pflag.Flag) { got = append(got, title+" "+f.Name) })
	}
	if want := []string{"First z", "First a", "Rest b", "Rest other"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Unlisted(cmd); !slices.Equal(got, []string{"other"}) {
		t.Errorf("no heading names %q", got)
	}
	var out strings.Builder
	PrintUsage(cmd, &out)
	first, rest := strings.Index(out.String(), "\nFirst:\n"), strings.Index(out.String(), "\nRest:\n")
	if first < 0 || rest < first || strings.Contains(out.String(), "secret") || strings.Contains(out.String(), "Empty") {
		t.Error(out.String())
	}
}

// TestArguments names the argument that is missing or too many, and a command of a noun for it.
func TestArguments(t *testing.T) {
	root, noun := &cobra.Command{Use: "escher"}, &cobra.Command{Use: "job"}
	verb, cmd := &cobra.Command{Use: "describe JOB"}, &cobra.Command{Use: "describe NAME"}
	noun.AddCommand(verb)
	root.AddCommand(noun, cmd)
	for _, x := range []struct {
		check cobra.PositionalArgs
		args  []string
		says  string
	}{
		{Exactly("NAME"), []string{"a"}, ""},
		{Exactly("NAME"), nil, "NAME: is missing: usage: escher describe NAME"},
		{Exactly("NAME", "VALUE"), []string{"a"}, "VALUE: is missing"},
		{Exactly("NAME"), []string{"a", "b"}, `argument: "b" is one too many: usage: escher describe NAME`},
		{Exactly("NAME"), []string{"job", "b"}, `"b" is one too many: did you mean escher job describe b?`},
		{Exactly("NAME"), []string{"jobs", "b", "c"}, "did you mean escher job describe b c?"},
		{Exactly(), []string{"a"}, `argument: "a" is one too many`},
		{AtLeastOne("TASK"), nil, "TASK: is missing"},
		{AtLeastOne("TASK"), []string{"a", "b"}, ""},
	} {
		err := x.check(cmd, x.args)
		if (err == nil) != (x.says == "") || err != nil && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), x.says)) {
			t.Errorf("%q: %v, want %q", x.args, err, x.says)
		}
	}
}

// TestForm outlines parameters of policies by their schema.
func TestForm(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"string"}`:                                       "p",
		`{"additionalProperties":false}`:                          "p",
		`{"items":{"type":"string"}}`:                             "p: […]",
		`{"items":{"$ref":"#/$defs/A"}}`:                          "p: [{…}]",
		`{"additionalProperties":{"items":{"$ref":"#/$defs/A"}}}`: "p: {NAME: [{…}]}",
	} {
		var f Form
		if err := json.Unmarshal([]byte(schema), &f); err != nil {
			t.Fatal(err)
		}
		if got := f.Written("p"); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
	defs := map[string]Form{"A": {Properties: map[string]Form{"x": {}}}}
	for _, of := range []Form{{Items: &Form{Ref: "#/$defs/A"}}, {Named: json.RawMessage(`{"$ref":"#/$defs/A"}`)}} {
		if got := of.Fields(defs); len(got) != 1 {
			t.Errorf("%+v has the fields %v", of, got)
		}
	}
	if got := (Form{Ref: "#/$defs/A"}).Fields(defs); got != nil {
		t.Errorf("a plain parameter has the fields %v", got)
	}
}

// failing is a stream that fails with its error from the second write on.
type failing struct {
	err    error
	writes int
}

func (f *failing) Write(text []byte) (int, error) {
	if f.writes++; f.writes > 1 {
		return 0, f.err
	}
	return len(text), nil
}

// TestSink remembers the first error of the output, and puts it before what follows from it.
func TestSink(t *testing.T) {
	to := &failing{err: &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}}
	s := &Sink{To: to, Full: make(chan struct{})}
	if _, err := io.WriteString(Plain{s}, "a\x1b"); err != nil {
		t.Fatal(err)
	}
	other := types.Errorf(types.NotFound, "no task")
	if err := s.Outcome(other); !errors.Is(err, other) || s.Outcome(nil) != nil {
		t.Errorf("while it writes: %v, %v", err, s.Outcome(nil))
	}
	for range 2 {
		if _, err := io.WriteString(Plain{s}, "b"); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "write output: no space left on device: make room there") {
			t.Errorf("full: %v", err)
		}
	}
	select {
	case <-s.Full:
	default:
		t.Error("nothing says that it is full")
	}
	if to.writes != 2 {
		t.Errorf("%d writes, want none after the one that failed", to.writes)
	}
	for _, x := range []struct {
		err  error
		full bool
	}{
		{nil, true},
		{Ended{3}, true},
		{context.Canceled, true},
		{types.Errorf(types.Invalid, "copy: %w", s.failed()), true},
		{other, false},
	} {
		if got := s.Outcome(x.err); (got.Error() == s.failed().Error()) != x.full || !x.full && !errors.Is(got, x.err) {
			t.Errorf("%v becomes %v", x.err, got)
		}
	}
}

func TestInterruptions(t *testing.T) {
	for _, x := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{context.Canceled, true},
		{Interruption{syscall.SIGTERM}, true},
		{fmt.Errorf("wait: %w", Interruption{syscall.SIGINT}), true},
		{Ended{1}, false},
		{types.Errorf(types.Unavailable, "no answer"), true},
		{types.Errorf(types.Invalid, "bad"), false},
	} {
		if got := IsInterruption(x.err); got != x.want {
			t.Errorf("%v: %t", x.err, got)
		}
	}
	for _, x := range []struct {
		cause error
		want  int
	}{
		{Interruption{syscall.SIGTERM}, types.ExitTerminated},
		{Interruption{syscall.SIGINT}, types.ExitInterrupted},
		{nil, types.ExitInterrupted},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(x.cause)
		if got := InterruptedCode(ctx); got != x.want {
			t.Errorf("%v: exit code %d, want %d", x.cause, got, x.want)
		}
	}
}

// TestAsk takes an explicit yes only.
func TestAsk(t *testing.T) {
	for answer, want := range map[string]bool{
		"y\n": true, " YES \n": true, "yes": true, "": false, "\n": false, "n\n": false, "yesterday\n": false, "\ny\n": false,
		strings.Repeat(" ", 64) + "y\n": false,
	} {
		var asked strings.Builder
		f := &Factory{Outside: Outside{In: strings.NewReader(answer), Err: &asked}}
		if yes, err := f.Ask("Go on?"); err != nil || yes != want || asked.String() != "Go on? [y/N] " {
			t.Errorf("%q: %t, %v, asked %q", answer, yes, err, &asked)
		}
	}
	broken := &Factory{Outside: Outside{In: io.MultiReader(strings.NewReader("y"), errReader{}), Err: io.Discard}}
	if yes, err := broken.Ask("Go on?"); yes || !errors.Is(err, syscall.EIO) {
		t.Errorf("an input that fails: %t, %v", yes, err)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, syscall.EIO }

// TestParseAtItsBounds adds the inputs that end without a value, or with too much of one.
func TestParseAtItsBounds(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "512B": 512, "8Gi": 8 << 30, "1500M": 1_500_000_000} {
		if got, err := ParseBytes("gpu-memory", text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "0B", "-1Gi", "1", "inf", "8 Gi", "lots", "99999999999Gi"} {
		if _, err := ParseBytes("gpu-memory", text); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), fmt.Sprintf("gpu-memory: %q is not a size: write it like 8Gi", text)) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for says, parse := range map[string]func() error{
		"request: \"\" is no request":     func() error { _, err := ParseRequests("request", []string{"cpu=1,"}); return err },
		"request: cpu is given twice":     func() error { _, err := ParseRequests("request", []string{"cpu=1", "cpu=2"}); return err },
		"alternative: \"x\" is no req":    func() error { _, err := ParseAlternative("after=1s,x"); return err },
		"alternative: after: \"\" is no":  func() error { _, err := ParseAlternative("x=1,after="); return err },
		"provide: ":                       func() error { _, err := ParseProvide("x=much@bound"); return err },
		"bundle: \"\" is no request":      func() error { _, err := ParseBundle("@node-1"); return err },
		"bundle: cpu is given twice: add": func() error { _, err := ParseBundle("cpu=1,cpu=1@node-1"); return err },
	} {
		if err := parse(); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	only, err := ParseAlternative("after=90s,cpu=1")
	if err != nil || only.After != 90*time.Second || len(only.Requests) != 1 {
		t.Errorf("%+v, %v", only, err)
	}
}
