package nodeagent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

// disk makes a machine with something to mount:
//
//	open/          may be written
//	open/file
//	open/inside    a link to open/file
//	open/out       a link to closed
//	fixed/         may be read
//	closed/        may not be mounted
//	elsewhere      a link to open
func disk(t *testing.T) (dir string, c Config) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"open", "open2", "fixed", "closed"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "open/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"open/inside": "file", "open/out": "../closed", "elsewhere": "open"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "open/n1"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir, Config{
		Node: "n1", StateDir: filepath.Join(dir, "state"),
		// An allowed path may be a link.
		AllowMounts: []AllowedMount{{Path: filepath.Join(dir, "elsewhere")}, {Path: filepath.Join(dir, "fixed"), ReadOnly: true}},
	}
}

func TestMounts(t *testing.T) {
	dir, c := disk(t)
	for name, m := range map[string]struct {
		types.Mount
		want string // the source, or part of the error
	}{
		"a directory":            {types.Mount{Source: "open", Target: "/data"}, "/open"},
		"a file":                 {types.Mount{Source: "open/file", Target: "/etc/conf"}, "/open/file"},
		"a link within":          {types.Mount{Source: "open/inside", Target: "/data"}, "/open/file"},
		"a link to it":           {types.Mount{Source: "elsewhere", Target: "/data"}, "/open"},
		"to read":                {types.Mount{Source: "fixed", Target: "/data", ReadOnly: true}, "/fixed"},
		"to write where not":     {types.Mount{Source: "fixed", Target: "/data"}, "read-only"},
		"what is not allowed":    {types.Mount{Source: "closed", Target: "/data"}, "start its agent with allow-mount " + dir + "/closed"},
		"a link that leads out":  {types.Mount{Source: "open/out", Target: "/data"}, "does not allow " + dir + "/closed"},
		"a way that leads out":   {types.Mount{Source: "open/../closed", Target: "/data"}, "does not allow"},
		"what begins the same":   {types.Mount{Source: "open2", Target: "/data"}, "does not allow"},
		"what is above":          {types.Mount{Source: "", Target: "/"}, "absolute path in the container"},
		"the node's own":         {types.Mount{Source: "open/{node}", Target: "/data"}, "/open/n1"},
		"the node's own, closed": {types.Mount{Source: "closed/{node}", Target: "/data"}, "does not allow"},
		"what is missing":        {types.Mount{Source: "open/missing", Target: "/data"}, "node n1"},
		"missing, and closed":    {types.Mount{Source: "closed/missing", Target: "/data"}, "does not allow"},
		"over the task socket":   {types.Mount{Source: "open", Target: "/run/escher"}, "task socket"},
		"above the task socket":  {types.Mount{Source: "open", Target: "/run"}, "task socket"},
		"beside the task socket": {types.Mount{Source: "open", Target: "/run/escher/../escher/x"}, "task socket"},
		"to nowhere":             {types.Mount{Source: "open", Target: "data"}, "absolute"},
	} {
		t.Run(name, func(t *testing.T) {
			if m.Source != "" {
				m.Source = filepath.Join(dir, "x") + "/../" + m.Source
				m.Source = strings.Replace(m.Source, "/x/..", "", 1)
			}
			got, err := c.mounts("c1", &types.Spec{Mounts: []types.Mount{m.Mount}}, 0)
			switch {
			case strings.HasPrefix(m.want, "/"):
				if err != nil || got[0].Source != dir+m.want || got[0].Target != m.Target || got[0].ReadOnly != m.ReadOnly {
					t.Errorf("%+v, %v", got, err)
				}
			case !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), m.want):
				t.Errorf("%+v, %v; want …%s…", got, err, m.want)
			}
		})
	}
}

func TestOuterMountsComeFirst(t *testing.T) {
	dir, c := disk(t)
	got, err := c.mounts("c1", &types.Spec{Mounts: []types.Mount{
		{Target: "/data/a/b"}, {Source: filepath.Join(dir, "open"), Target: "/data"}, {Target: "/data/a"},
	}, Tmpfs: []types.Tmpfs{{Target: "/data/a/c/d"}, {Target: "/data/a/x", Size: 9}}}, 50)
	if err != nil || got[0].Target != "/data" || got[1].Target != "/data/a" || got[2].Target != "/data/a/b" ||
		got[3] != (Mount{Target: "/data/a/x", TmpfsBytes: 9}) || got[4] != (Mount{Target: "/data/a/c/d", TmpfsBytes: 25}) {
		t.Errorf("%+v, %v", got, err)
	}
	if info, err := os.Stat(got[1].Source); err != nil || info.Mode().Perm() != 0o777 || got[1].Source == got[2].Source {
		t.Errorf("%v, %v: every user of the container is to use it", info, err)
	}
}

func TestNoMountsWithoutDirectories(t *testing.T) {
	c := Config{Node: "n1"}
	for _, m := range []types.Mount{{Target: "/tmp"}, {Source: "/", Target: "/host"}} {
		if got, err := c.mounts("c1", &types.Spec{Mounts: []types.Mount{m}}, 0); !types.Is(err, types.Invalid) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// A namespace may have added the memory, which the shared memory must fit then.
func TestMemoryOfAContainer(t *testing.T) {
	for _, test := range []struct {
		memory, shm, want types.Quantity
	}{
		{0, 0, 64 << 20}, {0, 1 << 30, 1 << 30}, {1 << 30, 0, 1 << 29}, {1 << 30, 1 << 30, 1 << 30}, {1 << 30, 1<<30 + 1, -1},
	} {
		b := &types.Binding{}
		if test.memory > 0 {
			b.Holds = []types.Holding{{Resource: types.Memory, Amount: test.memory}}
		}
		c, err := (&Config{Node: "n1"}).container("c1", Attempt{}, b, &types.Spec{Image: "i", Shm: test.shm})
		if test.want < 0 {
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "shm: 1073741825B is larger than the memory of the task, which is 1Gi") {
				t.Errorf("%+v: got %v", test, err)
			}
			continue
		}
		if err != nil || c.ShmBytes != int64(test.want) {
			t.Errorf("%+v: got %d, %v", test, c.ShmBytes, err)
		}
	}
}
