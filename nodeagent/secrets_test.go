package nodeagent_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
)

// named makes a spec use secrets, in variables and in files.
func named(s *types.Spec) {
	s.Env = []string{"HOME=/x"}
	s.Mounts = []types.Mount{{Target: "/s"}}
	s.Secrets = []types.SecretUse{{Name: "db", Env: []string{"PASSWORD=password"}}, {Name: "db", Dir: "/s/db"}}
}

// sesame are the values of db.
func sesame(context.Context, nodeagent.Attempt) (secrets.Values, error) {
	return secrets.Values{"db": {"password": []byte("sesame")}}, nil
}

// TestSecrets gives a container the values at each start, and stores them nowhere.
func TestSecrets(t *testing.T) {
	var mu sync.Mutex
	var got []nodeagent.Container
	rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, c)
		return simruntime.Behaviour{Run: time.Minute, Code: 1}, nil
	}}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rt)
		var asked atomic.Int64
		b.cfg.Secrets = func(ctx context.Context, a nodeagent.Attempt) (secrets.Values, error) {
			asked.Add(1)
			if a.Node != "n1" || a.Namespace != "d" || a.Task != "a" || a.Number != 1 {
				t.Errorf("asked for %+v", a)
			}
			return sesame(ctx, a)
		}
		var log bytes.Buffer
		b.cfg.Logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(zapcore.AddSync(&log)), zap.DebugLevel))
		b.start()
		b.bind("a", b.runs(func(s *types.Spec) { again(s); named(s) }))
		b.bind("other")
		b.pass(30 * time.Second)
		b.crash()
		b.start() // it adopts the container, and asks for nothing
		b.pass(20 * time.Second)
		b.alive(2)
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times until the restart of the agent, want once", n)
		}
		b.pass(30 * time.Second) // the process ends, and is restarted
		b.crash()
		if n := asked.Load(); n != 2 {
			t.Errorf("asked %d times after the restart of the process, want twice", n)
		}
		given := 0
		for _, c := range got {
			if c.Attempt.Task != "a" {
				if len(c.Secrets) != 0 {
					t.Errorf("%s gets %+v", c.Attempt.Task, c.Secrets)
				}
				continue
			}
			given++
			if !slices.Contains(c.Env, "PASSWORD=sesame") || fmt.Sprintf("%s", c.Secrets) != "[{/s/db map[password:sesame]}]" {
				t.Errorf("environment %q, files %s", c.Env, c.Secrets)
			}
			var targets []string
			for _, m := range c.Mounts {
				if strings.HasPrefix(m.Target, "/s") {
					targets = append(targets, m.Target)
				}
			}
			if fmt.Sprint(targets) != "[/s /s/db]" {
				t.Errorf("mounts %v, want outer ones first", targets)
			}
		}
		if given != 2 {
			t.Errorf("it was started %d times", given)
		}
		b.nowhere("sesame", &log)
	})
}

// nowhere checks that a text is neither in the store, the state directory, the events nor the log.
func (b *bench) nowhere(text string, log *bytes.Buffer) {
	b.t.Helper()
	all, _, err := controlplane.ListAll(b.t.Context(), b.store, controlplane.ListOptions{Prefix: controlplane.Root})
	if err != nil || len(all) == 0 {
		b.t.Fatalf("%d keys, %v", len(all), err)
	}
	for _, kv := range all {
		if bytes.Contains(kv.Value, []byte(text)) {
			b.t.Errorf("%s has it", kv.Key)
		}
	}
	events, _ := b.agent.Events("d", "a", 1, 0)
	if said := fmt.Sprintf("%+v", events); strings.Contains(said, text) {
		b.t.Errorf("the events have it: %s", said)
	}
	if log.Len() == 0 || strings.Contains(log.String(), text) {
		b.t.Errorf("the log of %d bytes has it", log.Len())
	}
	files := 0
	err = filepath.WalkDir(b.cfg.StateDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			b.t.Errorf("%s has it", path)
		}
		return err
	})
	if err != nil || files == 0 {
		b.t.Errorf("%d files, %v", files, err)
	}
}

// TestSecretsMissing says why a task cannot start, and what to do, or tries again.
func TestSecretsMissing(t *testing.T) {
	missing := types.Errorf(types.NotFound, "find secret db: namespace d has none of that name: set it with escher secret set db -n d")
	for name, c := range map[string]struct {
		get  func(context.Context, nodeagent.Attempt) (secrets.Values, error)
		code int
		says string
	}{
		"no server":       {nil, 126, "the agent of node n1 reaches etcd without a server, and only servers open secrets: start its agent with server"},
		"no such secret":  {func(context.Context, nodeagent.Attempt) (secrets.Values, error) { return nil, missing }, 127, missing.Error()},
		"no such value":   {func(context.Context, nodeagent.Attempt) (secrets.Values, error) { return secrets.Values{"db": {}}, nil }, 127, "find secret db: it lacks the value password"},
		"a server is not": {unavailable(types.Unavailable), 0, "trouble started"},
		"without its key": {unavailable(types.Precondition), 0, "trouble started"},
		"refused at once": {unavailable(types.Denied), 0, "trouble started"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, simruntime.Config{})
				b.cfg.Secrets = c.get
				b.start()
				defer b.crash()
				b.bind("a", b.runs(named))
				b.pass(10 * time.Second)
				if c.code == 0 {
					b.alive(1)
					if steps := b.steps("a"); !strings.HasSuffix(steps, c.says) {
						t.Errorf("steps %s, want %s", steps, c.says)
					}
					return
				}
				if r := b.expect("a", types.ReportExited); r.ExitCode != c.code || !strings.Contains(r.Reason, c.says) {
					t.Errorf("%+v, want %d and %q", r, c.code, c.says)
				}
			})
		})
	}
}

// unavailable fails once.
func unavailable(class types.Class) func(context.Context, nodeagent.Attempt) (secrets.Values, error) {
	var asked atomic.Int64
	return func(ctx context.Context, a nodeagent.Attempt) (secrets.Values, error) {
		if asked.Add(1) == 1 {
			return nil, types.Errorf(class, "not now")
		}
		return sesame(ctx, a)
	}
}

// TestLogin passes the login of a bound attempt to the runtime, which asks for it if it pulls, and stores it
// nowhere. Each start asks again, so that a new password counts.
func TestLogin(t *testing.T) {
	var mu sync.Mutex
	var got []secrets.Login
	asked := 0
	rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		if c.Attempt.Task != "a" {
			return simruntime.Behaviour{Run: time.Hour}, nil // its image is on the machine
		}
		login, err := c.Login(context.WithoutCancel(t.Context())) // that of the bubble is not here
		if err != nil {
			return simruntime.Behaviour{}, err
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, login)
		return simruntime.Behaviour{Run: time.Minute, Code: 1}, nil
	}}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rt)
		b.cfg.Login = func(ctx context.Context, a nodeagent.Attempt) (secrets.Login, error) {
			mu.Lock()
			defer mu.Unlock()
			if _, bounded := ctx.Deadline(); !bounded || a.Node != "n1" || a.Namespace != "d" || a.Task != "a" || a.Number != 1 {
				t.Errorf("asked for %+v, in time %t", a, bounded)
			}
			if asked++; asked == 1 {
				return secrets.Login{}, types.Errorf(types.Unavailable, "no server answers")
			}
			return secrets.Login{Secret: "registry-ghcr.io", Username: "ann", Password: fmt.Sprint("sesame", asked)}, nil
		}
		var log bytes.Buffer
		b.cfg.Logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(zapcore.AddSync(&log)), zap.DebugLevel))
		b.start()
		b.bind("a", b.runs(again))
		b.bind("other")
		b.pass(90 * time.Second)
		b.crash()
		if len(got) != 2 || got[0].Password != "sesame2" || got[1].Password != "sesame3" {
			t.Errorf("the runtime got %d logins: %q", len(got), got)
		}
		if steps := b.steps("a"); !strings.Contains(steps, "trouble") {
			t.Errorf("steps %s, want the trouble of the first start", steps)
		}
		b.nowhere("sesame", &log)
	})
}

// TestLoginWithoutAServer starts tasks as ever if the agent reaches no server: then no namespace has a login.
func TestLoginWithoutAServer(t *testing.T) {
	rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		if c.Login != nil {
			t.Error("it has a login to ask for")
		}
		return simruntime.Behaviour{Run: time.Hour}, nil
	}}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rt)
		b.start()
		defer b.crash()
		b.bind("a")
		b.pass(10 * time.Second)
		b.alive(1)
	})
}
