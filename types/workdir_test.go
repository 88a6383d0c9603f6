package types

import (
	"strings"
	"testing"
)

func TestIsWorkdirImage(t *testing.T) {
	sum := strings.Repeat("0123456789abcdef", 4)
	for image, want := range map[string]bool{
		WorkdirRepository + "@sha256:" + sum:                  true,
		UnsentWorkdir:                                         true,
		WorkdirRepository + "@sha256:" + sum[1:]:              false,
		WorkdirRepository + "@sha256:" + sum + "0":            false,
		WorkdirRepository + "@sha256:" + strings.ToUpper(sum): false,
		WorkdirRepository + "@sha512:" + sum:                  false,
		WorkdirRepository + ":latest":                         false,
		WorkdirRepository:                                     false,
		"escher.local/other@sha256:" + sum:                    false,
		"docker.io/library/busybox:1.36":                      false,
		"":                                                    false,
	} {
		if got := IsWorkdirImage(image); got != want {
			t.Errorf("%q is the image of a workdir: %v, want %v", image, got, want)
		}
	}
}

func TestValidateWorkdir(t *testing.T) {
	for says, s := range map[string]Spec{
		"": {Workdir: &Workdir{Image: UnsentWorkdir, Target: DefaultWorkdir}},
		"workdir.image: is missing: the command line sends a directory":      {Workdir: &Workdir{Target: "/app"}},
		`workdir.image: "busybox" is not the image of a directory`:           {Workdir: &Workdir{Image: "busybox", Target: "/app"}},
		"workdir.to: is empty: give an absolute path":                        {Workdir: &Workdir{Image: UnsentWorkdir}},
		`workdir.to: "app" is not absolute: begin it with '/'`:               {Workdir: &Workdir{Image: UnsentWorkdir, Target: "app"}},
		`workdir.to: "/app/" is not a clean path: write /app`:                {Workdir: &Workdir{Image: UnsentWorkdir, Target: "/app/"}},
		`workdir.to: "/" is part of every container: choose a directory`:     {Workdir: &Workdir{Image: UnsentWorkdir, Target: "/"}},
		`workdir.to: "/run/escher/x" would hide the task's socket`:           {Workdir: &Workdir{Image: UnsentWorkdir, Target: "/run/escher/x"}},
		`mounts[1].target: "/app" is the workdir too: choose another`:        {Workdir: &Workdir{Image: UnsentWorkdir, Target: "/app"}, Mounts: []Mount{{Target: "/app/x"}, {Target: "/app"}}},
		"has 4097 bytes: at most 4096 are allowed, shorten it":               {Workdir: &Workdir{Image: UnsentWorkdir, Target: "/" + strings.Repeat("x", MaxPath)}},
		`workdir.image: "` + WorkdirRepository + `:latest" is not the image`: {Workdir: &Workdir{Image: WorkdirRepository + ":latest", Target: "/app"}},
		`tmpfs[0].target: "/app" is the workdir too: choose another`:         {Workdir: &Workdir{Image: UnsentWorkdir, Target: "/app"}, Tmpfs: []Tmpfs{{Target: "/app"}}},
	} {
		s.Image = "img"
		err := s.Validate()
		switch {
		case says == "":
			if err != nil {
				t.Errorf("%+v: %v, want it accepted", s.Workdir, err)
			}
		case !Is(err, Invalid) || !strings.Contains(err.Error(), says):
			t.Errorf("%+v: %v, want %s", s.Workdir, err, says)
		}
	}
}
