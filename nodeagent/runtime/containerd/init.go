package containerd

import (
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// DefaultInits returns the paths of packaged init programs that need no libraries, because an image
// may lack them: Debian's tini, Docker's and Podman's. All have the same arguments.
func DefaultInits() []string {
	return []string{"/usr/bin/tini-static", "/usr/bin/docker-init", "/usr/libexec/docker/docker-init", "/usr/libexec/podman/catatonit", "/usr/bin/catatonit"}
}

// withInit makes an init of this machine the first process of a container that requests one.
// Unavailable: the machine has none, and an administrator can install one.
func withInit(c nodeagent.Container, spec *specs.Spec, inits []string) error {
	if !c.Init {
		return nil
	}
	at := slices.IndexFunc(inits, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular()
	})
	if at < 0 {
		return types.Errorf(types.Unavailable, "give container %s an init: node %s has none (%s): install it there, with apt-get install tini, or leave init out",
			c.ID, c.Attempt.Node, strings.Join(inits, ", "))
	}
	spec.Mounts = append(spec.Mounts, bind(inits[at], types.InitPath, true))
	spec.Process.Args = append([]string{types.InitPath, "--"}, spec.Process.Args...)
	return nil
}
