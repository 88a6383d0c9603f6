package cli_test

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// execute runs a command in a simulated container: echo TEXT..., exit CODE.
func execute(_ context.Context, id string, p nodeagent.Process) (int, error) {
	switch {
	case p.Command[0] == "echo":
		_, err := fmt.Fprintln(p.Stdout, strings.Join(p.Command[1:], " "))
		return 0, err
	case p.Command[0] == "exit" && len(p.Command) == 2:
		return strconv.Atoi(p.Command[1])
	case p.Command[0] == "ls" || p.Command[0] == "tar":
		return 0, nil
	}
	return 0, types.Errorf(types.NotFound, "run %q in container %s: there is no such command", p.Command, id)
}

// imageStore has loaded images, from an archive that is a list of their names, and pulled ones. A
// name may be followed by = and an entry point.
type imageStore struct {
	mu     sync.Mutex
	images []nodeagent.Image
}

func (s *imageStore) Add(names ...string) []nodeagent.Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	var added []nodeagent.Image
	for _, name := range names {
		name, entrypoint, _ := strings.Cut(name, "=")
		added = append(added, nodeagent.Image{Name: name, Entrypoint: strings.Fields(entrypoint), Digest: "sha256:0123456789abcdef", Bytes: 3 << 20, Created: time.Now()})
	}
	s.images = append(s.images, added...)
	return added
}

func (s *imageStore) Load(_ context.Context, archive io.Reader) ([]nodeagent.Image, error) {
	text, err := io.ReadAll(archive)
	if err != nil {
		return nil, err
	}
	names := strings.Fields(string(text))
	if len(names) == 0 {
		return nil, types.Errorf(types.Invalid, "read the archive: it has no image: give one that docker save wrote")
	}
	return s.Add(names...), nil
}

func (s *imageStore) Pull(_ context.Context, ref string) (nodeagent.Image, error) {
	if strings.Contains(ref, "none") {
		return nodeagent.Image{}, types.Errorf(types.NotFound, "pull image %s: no registry has it: check its name", ref)
	}
	return s.Add(ref)[0], nil
}

func (s *imageStore) Images(context.Context) ([]nodeagent.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.images, nil
}

func (s *imageStore) Pulling() []nodeagent.Pulling { return nil }
