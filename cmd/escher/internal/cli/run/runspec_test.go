package run

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
)

// in is the factory of an environment with these variables.
func in(env map[string]string) *cmdutil.Factory {
	return &cmdutil.Factory{Outside: cmdutil.Outside{Getenv: func(name string) string { return env[name] }}}
}

func TestParseMount(t *testing.T) {
	for text, want := range map[string]types.Mount{
		"/data:/in":     {Source: "/data", Target: "/in"},
		"/data/:/in//a": {Source: "/data", Target: "/in/a"},
		"/data:/in:ro":  {Source: "/data", Target: "/in", ReadOnly: true},
		"/data:/in:rw":  {Source: "/data", Target: "/in"},
		"name:in/":      {Source: "name", Target: "in/"},
	} {
		if got, err := parseMount(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"/data":          "give --scratch /data for an empty directory",
		":/in":           "write SOURCE:TARGET or SOURCE:TARGET:ro",
		"/data:/in:no":   "write SOURCE:TARGET or SOURCE:TARGET:ro",
		"/a:/b:ro:extra": "write SOURCE:TARGET or SOURCE:TARGET:ro",
	} {
		if _, err := parseMount(text); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), "mount: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

func TestParsePort(t *testing.T) {
	for text, want := range map[string]types.TaskPort{"http": {Name: "http"}, "http=1": {Name: "http", Number: 1}, "http=65535": {Name: "http", Number: 65535}} {
		if got, err := parsePort(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"8080":           "write http=8080",
		"80:8080":        "write http=80, and let the program listen at $PORT",
		"0.0.0.0:81:80":  "write http=81",
		"http=":          "a number from 1 to 65535",
		"http=0":         "a number from 1 to 65535",
		"http=65536":     "a number from 1 to 65535",
		"http=8080/tcp":  "a number from 1 to 65535",
		"http=80=90":     "a number from 1 to 65535",
		"127.0.0.1::443": "maps a port",
	} {
		if _, err := parsePort(text); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), "port: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

func TestParseRestart(t *testing.T) {
	for _, x := range []struct {
		flags specFlags
		want  types.Restart
		says  string
	}{
		{specFlags{restart: "always"}, types.Restart{When: types.RestartAlways}, ""},
		{specFlags{restart: "on-failure:3", delay: time.Second}, types.Restart{When: types.RestartOnFailure, Limit: 3, Delay: time.Second}, ""},
		{specFlags{restart: "always:1", maxDelay: time.Minute}, types.Restart{When: types.RestartAlways, Limit: 1, MaxDelay: time.Minute}, ""},
		{flags: specFlags{restart: "no", delay: time.Second}, says: "restart-delay: is given, and nothing is restarted"},
		{flags: specFlags{maxDelay: time.Second}, says: "restart-delay: is given"},
		{flags: specFlags{restart: "never:3"}, says: `"never:3" is unknown: use never, on-failure`},
		{flags: specFlags{restart: "unless-stopped"}, says: `"unless-stopped" is unknown`},
		{flags: specFlags{restart: "always:"}, says: "such as always:5"},
		{flags: specFlags{restart: "on-failure:0"}, says: "such as on-failure:5"},
		{flags: specFlags{restart: "on-failure:x"}, says: `"on-failure:x" has no limit after the colon`},
	} {
		got, err := x.flags.parseRestart()
		if x.says == "" && (err != nil || got == nil || *got != x.want) || x.says != "" && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), x.says)) {
			t.Errorf("%+v: %+v, %v", x.flags, got, err)
		}
	}
	for _, text := range []string{"", "no", "never"} {
		if got, err := (&specFlags{restart: text}).parseRestart(); got != nil || err != nil {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// TestEnvironment takes the files before the flags, and the last value of a variable at its first place.
func TestEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("# a comment\n\n A=file\nB=b=c\nHOME\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := in(map[string]string{"HOME": "/root", "TERM": "xterm"})
	for _, x := range []struct {
		flags specFlags
		want  []string
	}{
		{specFlags{envFiles: []string{file}, env: []string{"A=flag", "C="}}, []string{"A=flag", "B=b=c", "HOME=/root", "C="}},
		{specFlags{env: []string{"A=1", "B=2", "A=3"}}, []string{"A=3", "B=2"}},
		{specFlags{tty: true}, []string{"TERM=xterm"}},
		{specFlags{tty: true, env: []string{"A=1", "TERM=dumb"}}, []string{"TERM=dumb", "A=1"}},
	} {
		if got, err := x.flags.environment(f); err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%+v: %q, %v, want %q", x.flags, got, err, x.want)
		}
	}
	if err := os.WriteFile(file, []byte("A=1\n\n=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, flags := range map[string]specFlags{
		`env: "=1" has no name: write NAME=value`:         {env: []string{"=1"}},
		`env: "NONE" is not NAME=value, and no variable`:  {env: []string{"NONE"}},
		file + `:3: "=x" has no name`:                     {envFiles: []string{file}},
		"env-file: open " + file + ".x: no such file":     {envFiles: []string{file + ".x"}},
		"env-file: " + filepath.Dir(file) + ": read":      {envFiles: []string{filepath.Dir(file)}},
		"is a directory: write lines NAME=value":          {envFiles: []string{filepath.Dir(file)}},
		"no such file or directory: name a file of lines": {envFiles: []string{"/nonexistent/env"}},
	} {
		if _, err := flags.environment(f); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", flags, err, says)
		}
	}
}

// TestProgram tells an entry point that is empty from one that is not given.
func TestProgram(t *testing.T) {
	for _, x := range []struct {
		flags specFlags
		given bool
		want  []string
	}{
		{specFlags{}, false, nil},
		{specFlags{}, true, []string{}},
		{specFlags{entrypoint: "/bin/sh"}, true, []string{"/bin/sh"}},
		{specFlags{binary: "/bin/app", entrypoint: "/bin/sh"}, true, []string{"/bin/app"}},
	} {
		x.flags.entrypointGiven = func() bool { return x.given }
		if got := x.flags.program(); !slices.Equal(got, x.want) || (got == nil) != (x.want == nil) {
			t.Errorf("%+v: %#v, want %#v", x.flags, got, x.want)
		}
	}
}

func TestCheckBinary(t *testing.T) {
	text := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		text:              "is no program for Linux: give the path of a static binary",
		text + ".missing": "no such file or directory: give the path of a static binary",
		"/bin/ls":         "needs libraries, and its image would have none: link it statically",
	} {
		if err := checkBinary(name); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), "binary: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
}

// TestHealthFlags makes a check of each flag, with the same details.
func TestHealthFlags(t *testing.T) {
	h := healthFlags{
		command: " [\"/bin/check\", \"-q\"]", http: "web", tcp: "5432", interval: time.Second, timeout: 2, startPeriod: 3, retries: 4, then: "restart",
		signal: "USR1@2m", init: true,
	}
	var out types.Spec
	if err := h.look(&out); err != nil || len(out.Checks) != 3 || !out.Init || out.Warn == nil || out.Warn.Before != 2*time.Minute {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, c := range out.Checks {
		if c.Every != time.Second || c.Timeout != 2 || c.StartPeriod != 3 || c.Failures != 4 || c.Then != types.ThenRestart {
			t.Errorf("%+v", c)
		}
	}
	if c := out.Checks; !slices.Equal(c[0].Exec, []string{"/bin/check", "-q"}) || *c[1].HTTP != (types.HTTPCheck{Port: "web"}) || c[2].TCP.Port != "5432" {
		t.Errorf("%+v", c)
	}
	shell, err := (&healthFlags{command: "test -f /ok"}).execCheck()
	if err != nil || !slices.Equal(shell.Exec, []string{"/bin/sh", "-c", "test -f /ok"}) {
		t.Errorf("%+v, %v", shell, err)
	}
	below, err := (&healthFlags{http: "8080/a/b?c=d"}).httpCheck()
	if err != nil || *below.HTTP != (types.HTTPCheck{Port: "8080", Path: "/a/b?c=d"}) {
		t.Errorf("%+v, %v", below, err)
	}
	for says, h := range map[string]healthFlags{
		"health: is described, and there is no check: give --health-cmd": {then: "restart"},
		"no-healthcheck: a check is given too":                           {none: true, tcp: "1"},
		`health-cmd: "[1]" is no list of texts`:                          {command: "[1]"},
		`health-cmd: "[]" names no program`:                              {command: "[]"},
		`health-http: "/up" has no port: write PORT/PATH`:                {http: "/up"},
		"signal: ": {signal: "USR1"},
	} {
		if err := h.look(new(types.Spec)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", h, err, says)
		}
	}
	both := (&healthFlags{command: "[]", http: "/", signal: "x"}).look(new(types.Spec))
	if joined, ok := both.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 3 { //nolint:errorlint // the outermost error is asked
		t.Errorf("%v, want all three errors", both)
	}
}

// TestNotANumber refuses -n 4 of Slurm users, and takes names.
func TestNotANumber(t *testing.T) {
	for ns, refused := range map[string]bool{"4": true, "007": true, "": false, "team-4": false, "-1": false, "4a": false} {
		err := notANumber(&cmdutil.Factory{Given: contexts.Given{Namespace: ns}})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "write --count "+ns) {
			t.Errorf("%q: %v", ns, err)
		}
	}
}
