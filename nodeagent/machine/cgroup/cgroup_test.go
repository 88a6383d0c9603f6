package cgroup_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

// fixture makes files below a directory.
func fixture(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func v1(t *testing.T) string {
	root := fixture(t, map[string]string{
		"cpu,cpuacct/escher/web-1/cgroup.procs": "12\n11\n",
		"memory/escher/web-1/cgroup.procs":      "11\n12\n",
		"memory/escher/web-2/cgroup.procs":      "",
		"pids/escher/web-1/inner/cgroup.procs":  "13\n0\n",
		"pids/escher/web-1/cgroup.procs":        "11\n",
		"pids/other/cgroup.procs":               "99\n",
	})
	for _, name := range []string{"cpu", "cpuacct"} {
		if err := os.Symlink("cpu,cpuacct", filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func v2(t *testing.T) string {
	return fixture(t, map[string]string{
		"cgroup.controllers":                   "cpu memory pids\n",
		"escher/web-1/cgroup.procs":            "11\n12\n",
		"escher/web-1/inner/cgroup.procs":      "13\n",
		"escher/web-2/cgroup.procs":            "",
		"escher/escher.subtree_control":        "",
		"other.slice/other-1.scope/not.a.proc": "",
	})
}

func TestFind(t *testing.T) {
	for _, test := range []struct {
		name, root string
		dirs       []string
	}{
		{"v1", v1(t), []string{"cpu,cpuacct/escher/web-1", "memory/escher/web-1", "pids/escher/web-1"}},
		{"v2", v2(t), []string{"escher/web-1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := cgroup.Unified(test.root); got != (test.name == "v2") {
				t.Errorf("unified is %t", got)
			}
			dirs, err := cgroup.Dirs(test.root, "/escher/web-1")
			if err != nil {
				t.Fatal(err)
			}
			for i := range dirs {
				dirs[i], _ = filepath.Rel(test.root, dirs[i])
			}
			if !slices.Equal(dirs, test.dirs) {
				t.Errorf("directories %q, want %q", dirs, test.dirs)
			}
			if pids, err := cgroup.Procs(test.root, "/escher/web-1"); err != nil || !slices.Equal(pids, []int{11, 12, 13}) {
				t.Errorf("processes %v, %v; want those of the cgroup and below it, each once", pids, err)
			}
			if names, err := cgroup.Children(test.root, "/escher"); err != nil || !slices.Equal(names, []string{"web-1", "web-2"}) {
				t.Errorf("children %q, %v", names, err)
			}
			for _, missing := range []string{"/escher/web-3", "/none"} {
				pids, err := cgroup.Procs(test.root, missing)
				if err != nil || len(pids) > 0 {
					t.Errorf("processes of %s: %v, %v; want none", missing, pids, err)
				}
				if names, err := cgroup.Children(test.root, missing); err != nil || len(names) > 0 {
					t.Errorf("children of %s: %q, %v; want none", missing, names, err)
				}
			}
		})
	}
}

// TestKillRefuses tests paths that would mean the whole machine, or are invalid.
func TestKillRefuses(t *testing.T) {
	for _, path := range []string{"", "/", ".", "escher/web-1", "/escher/../", "/escher/", "/../etc"} {
		if err := cgroup.Kill(t.Context(), t.TempDir(), path); !types.Is(err, types.Invalid) {
			t.Errorf("kill %q: %v, want it invalid", path, err)
		}
	}
	if err := cgroup.Kill(t.Context(), filepath.Join(t.TempDir(), "none"), "/escher/web-1"); !types.Is(err, types.Unavailable) {
		t.Errorf("kill below a root that is not there: %v, want unavailable: nothing is known of what runs", err)
	}
}

func TestLayout(t *testing.T) {
	for _, test := range []struct {
		layout            cgroup.Layout
		path, parent, oci string
	}{
		{cgroup.Layout{Driver: cgroup.Cgroupfs, Group: "escher"}, "/escher/web-1", "/escher", "/escher/web-1"},
		{
			cgroup.Layout{Driver: cgroup.Systemd, Group: "escher"}, "/escher.slice/escher-web-1.scope",
			"/escher.slice", "escher.slice:escher:web-1",
		},
		{
			cgroup.Layout{Driver: cgroup.Systemd, Group: "escher-dev"}, "/escher.slice/escher-dev.slice/escher-dev-web-1.scope",
			"/escher.slice/escher-dev.slice", "escher-dev.slice:escher-dev:web-1",
		},
	} {
		l := test.layout
		if l.Path("web-1") != test.path || l.Parent() != test.parent || l.OCI("web-1") != test.oci {
			t.Errorf("%+v: %s, %s, %s", l, l.Path("web-1"), l.Parent(), l.OCI("web-1"))
		}
		if id, ok := l.ID(filepath.Base(l.Path("web-1"))); !ok || id != "web-1" {
			t.Errorf("%+v: the cgroup is of %q, %t", l, id, ok)
		}
		for _, other := range []string{"", "init.scope", "escher-.scope"} {
			if id, ok := l.ID(other); l.Driver == cgroup.Systemd && ok {
				t.Errorf("%+v: %q is of %q, want of none", l, other, id)
			}
		}
	}
}
