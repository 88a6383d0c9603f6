package contexts_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
)

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "config.yaml")
	if f, err := contexts.Load(path); err != nil || len(f.Contexts) != 0 {
		t.Fatalf("a file that is not there: %v, %v", f, err)
	}
	want := contexts.File{Current: "far", Contexts: map[string]contexts.Context{
		"far":  {Address: etcdstore.Address{Endpoints: []string{"https://a:1"}, CACert: "/ca"}, Namespace: "team"},
		"near": {Dir: "/var/lib/escher"},
	}}
	if err := want.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := contexts.Load(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := got.Get("fra"); !types.Is(err, types.NotFound) || !strings.Contains(err.Error(), "there is far, near") {
		t.Errorf("unknown context: %v", err)
	}
}

func TestLoadIsStrict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	for text, says := range map[string]string{
		"contexts: {a: {endpoint: [x]}}":            `unknown field "endpoint"`,
		"current: b\ncontexts: {a: {}}":             `no context "b"`,
		"contexts:\n  a: {dir: /x}\n  a: {dir: /y}": "already set",
		"contexts: [": "did not find",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := contexts.Load(path); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPath(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"/x/escher/config.yaml":              {"XDG_CONFIG_HOME": "/x", "HOME": "/home/a"},
		"/home/a/.config/escher/config.yaml": {"XDG_CONFIG_HOME": "relative", "HOME": "/home/a"},
		"":                                   {},
	} {
		if got := contexts.Path(func(name string) string { return env[name] }); got != want {
			t.Errorf("%v: %s", env, got)
		}
	}
}
