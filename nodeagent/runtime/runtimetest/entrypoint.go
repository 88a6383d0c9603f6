package runtimetest

import (
	"reflect"
	"strings"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// testEntrypointAndCommand tests that a command follows the entry point, the image's or the
// container's, and replaces the arguments of the image, as those of docker do.
func testEntrypointAndCommand(s *suite) {
	words := func(words ...string) []string { return words }
	for _, test := range []struct {
		image               string
		entrypoint, command []string
		code                int
	}{
		{EntryImage, nil, nil, 6},
		{EntryImage, nil, words("exit", "3"), 3},
		{EntryImage, words(Program, "exit"), words("4"), 4},
		{EntryImage, words(Program, "exit", "5"), nil, 5},
		{Image, words(Program), words("exit", "2"), 2},
		{Image, nil, words(Program, "exit", "7"), 7},
	} {
		c := s.container()
		c.Image, c.Entrypoint, c.Command = test.image, test.entrypoint, test.command
		s.must(s.Start(s.ctx(), c))
		if exit := s.wait(c.ID); exit.Code != test.code {
			s.Errorf("image %s with entry point %q and command %q: exit code %d, want %d", test.image, test.entrypoint, test.command, exit.Code, test.code)
		}
	}
}

func testNoSuchEntrypoint(s *suite) {
	c := s.container()
	c.Entrypoint, c.Command = []string{"/bin/no-entry"}, []string{"exit", "0"}
	err := s.Start(s.ctx(), c)
	s.wants(err, types.NotFound)
	if err == nil || !strings.Contains(err.Error(), "/bin/no-entry") {
		s.Errorf("got %v, want the name of the entry point", err)
	}
	s.nothingLeft(c.ID)
}

// testHealthCheckOfTheImage tests that the check is known from the start, a repeated one included,
// and by a restarted agent.
func testHealthCheckOfTheImage(s *suite) {
	for image, want := range map[string]*types.Check{EntryImage: Check(), Image: nil} {
		c := s.container()
		c.Image, c.Entrypoint = image, []string{Program, "block"}
		for range 2 {
			started, err := s.Runtime.Start(s.ctx(), c)
			s.must(err)
			if !reflect.DeepEqual(started.Check, want) {
				s.Errorf("image %s: the check of the start is %+v, want %+v", image, started.Check, want)
			}
		}
		for name, r := range map[string]nodeagent.Runtime{"this agent": s.Runtime, "a restarted one": s.Open(s.T, s.node)} {
			if seen := s.find(r, c.ID); seen == nil || !reflect.DeepEqual(seen.Check, want) {
				s.Errorf("image %s: %s sees %+v, want check %+v", image, name, seen, want)
			}
		}
	}
}
