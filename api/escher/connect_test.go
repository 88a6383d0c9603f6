package escher_test

import (
	"bytes"
	"errors"
	"flag"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// TestConnect finds the cluster by options, flags, the environment, a context and a directory, and
// the namespace.
func TestConnect(t *testing.T) {
	etcd := etcdtest.Start(t)
	home := t.TempDir()
	file := contexts.File{Current: "here", Contexts: map[string]contexts.Context{
		"here": {Address: etcdstore.Address{Endpoints: []string{etcd.Endpoint}}, Namespace: "of-context"},
	}}
	if err := file.Save(filepath.Join(home, ".config", "escher", "config.yaml")); err != nil {
		t.Fatal(err)
	}
	flags := flag.NewFlagSet("program", flag.ContinueOnError)
	given := escher.Flags(flags)
	if err := flags.Parse([]string{"-endpoints", etcd.Endpoint, "-namespace", "of-flag"}); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		env  environment
		opts []escher.Option
		want string
	}{
		"options":     {environment{}, []escher.Option{escher.WithEndpoints(etcd.Endpoint), escher.WithNamespace("of-option")}, "of-option"},
		"flags":       {environment{}, []escher.Option{given}, "of-flag"},
		"environment": {environment{etcdstore.EnvEndpoints: etcd.Endpoint, contexts.EnvNamespace: "of-env"}, nil, "of-env"},
		"context":     {environment{"HOME": home}, nil, "of-context"},
		"named":       {environment{"HOME": home}, []escher.Option{escher.WithContext("here")}, "of-context"},
		"default":     {environment{etcdstore.EnvEndpoints: etcd.Endpoint}, nil, "default"},
	} {
		c, err := escher.Connect(t.Context(), append(x.opts, escher.WithEnvironment(x.env.get))...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := c.State(t.Context()); err != nil || c.Namespace() != x.want {
			t.Errorf("%s: %v, namespace %s, want %s", name, err, c.Namespace(), x.want)
		}
		if err := c.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestConnectRefused names what is wrong, and what to do.
func TestConnectRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	serve(t, memstore.New(), dir, tasksocket.Self{Namespace: "mine", Task: "me", Node: "n1"})
	socket := filepath.Join(dir, tasksocket.Name)
	for name, x := range map[string]struct {
		env   environment
		opts  []escher.Option
		class types.Class
		says  string
	}{
		"no cluster":      {environment{}, []escher.Option{escher.WithDir(t.TempDir())}, types.Unavailable, "escher dev"},
		"no context":      {environment{"HOME": t.TempDir()}, []escher.Option{escher.WithContext("far")}, types.NotFound, `"far"`},
		"namespace":       {environment{}, []escher.Option{escher.WithDir(t.TempDir()), escher.WithNamespace("a/b")}, types.Invalid, "a/b"},
		"socket is gone":  {environment{tasksocket.EnvSocket: socket + "-gone"}, nil, types.Unavailable, "-gone"},
		"other namespace": {environment{tasksocket.EnvSocket: socket}, []escher.Option{escher.WithNamespace("other")}, types.Precondition, "mine"},
	} {
		_, err := escher.Connect(t.Context(), append(x.opts, escher.WithEnvironment(x.env.get))...)
		if !errors.Is(err, x.class) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v, want class %s and %q", name, err, x.class, x.says)
		}
	}
}

// TestLogger passes logs of the libraries on to log/slog, with levels and fields.
func TestLogger(t *testing.T) {
	var out bytes.Buffer
	log := escher.Zap(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	log.Debug("too small")
	log.Named("watch").With(escher.Field("node", "n1")).Warn("it was lost", escher.Field("after", 3))
	log.Error("bad")
	got := out.String()
	for _, want := range []string{"level=WARN", `msg="it was lost"`, "logger=watch", "node=n1", "after=3", "level=ERROR msg=bad"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "too small") {
		t.Errorf("it has a line below its level:\n%s", got)
	}
}
