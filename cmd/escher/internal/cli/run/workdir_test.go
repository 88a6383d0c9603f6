package run

import (
	"testing"

	"github.com/escher-sched/escher/types"
)

func TestWorkdirFlag(t *testing.T) {
	for flag, want := range map[string]struct{ local, target, dir string }{
		"":              {},
		"/www":          {dir: "/www"},
		"/":             {dir: "/"},
		".":             {local: ".", target: "/workdir"},
		"src":           {local: "src", target: "/workdir"},
		"../x":          {local: "../x", target: "/workdir"},
		".:/app":        {local: ".", target: "/app"},
		"src:/app/":     {local: "src", target: "/app"},
		"/srv/code:/a":  {local: "/srv/code", target: "/a"},
		"a:b":           {local: "a:b", target: "/workdir"},
		"/odd:name":     {dir: "/odd:name"},
		"a:/b:/c":       {local: "a:/b", target: "/c"},
		".:/app/../etc": {local: ".", target: "/etc"},
	} {
		s, spec := specFlags{workdir: flag}, new(types.Spec)
		if err := s.setWorkdir(spec); err != nil {
			t.Errorf("%q: %v", flag, err)
			continue
		}
		target := ""
		if spec.Workdir != nil {
			target = spec.Workdir.Target
			if spec.Workdir.Image != types.UnsentWorkdir {
				t.Errorf("%q: image %q, want that of one that is not sent", flag, spec.Workdir.Image)
			}
		}
		if s.local != want.local || target != want.target || spec.Dir != want.dir {
			t.Errorf("%q: %q at %q, directory %q; want %+v", flag, s.local, target, spec.Dir, want)
		}
	}
	s := specFlags{workdir: ":/app"}
	if err := s.setWorkdir(new(types.Spec)); !types.Is(err, types.Invalid) {
		t.Errorf("%q: %v, want Invalid", s.workdir, err)
	}
}
