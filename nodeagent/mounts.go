package nodeagent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// AllowedMount is a path of the machine that tasks may mount, with everything below it.
type AllowedMount struct {
	Path string
	// ReadOnly reports whether tasks may only read there.
	ReadOnly bool
}

// scratchMode lets every user of a container use its scratch directory. Other users of the machine
// cannot reach it.
const scratchMode = 0o777 | fs.ModeSticky

func (c Config) validateMounts() error {
	var errs []error
	for _, m := range c.AllowMounts {
		if !filepath.IsAbs(m.Path) {
			errs = append(errs, fmt.Errorf("allow-mount: %q is not absolute: give the full path", m.Path))
		}
	}
	return errors.Join(errs...)
}

// mounts returns the mounts of a spec in a container with that much memory, outer ones first. It
// makes the scratch directories. Invalid: a mount is not possible.
func (c *Config) mounts(id string, spec *types.Spec, memory types.Quantity) ([]Mount, error) {
	out := make([]Mount, 0, len(spec.Mounts))
	for i, m := range spec.Mounts {
		if err := checkTarget(m.Target); err != nil {
			return nil, err
		}
		source, err := c.source(id, i, m)
		if err != nil {
			return nil, err
		}
		out = append(out, Mount{Source: source, Target: filepath.Clean(m.Target), ReadOnly: m.ReadOnly})
	}
	for _, f := range spec.Tmpfs {
		if err := checkTarget(f.Target); err != nil {
			return nil, err
		}
		out = append(out, Mount{Target: filepath.Clean(f.Target), TmpfsBytes: int64(cmp.Or(f.Size, types.MemoryShare(memory)))})
	}
	slices.SortStableFunc(out, func(x, y Mount) int { return cmp.Compare(depth(x.Target), depth(y.Target)) })
	return out, nil
}

func depth(path string) int { return strings.Count(path, "/") }

// checkTarget refuses targets that would hide the task socket or lie in its directory.
func checkTarget(target string) error {
	clean := filepath.Clean(target)
	switch {
	case !filepath.IsAbs(target) || clean == "/":
		return types.Errorf(types.Invalid, "mount at %q: the target must be an absolute path in the container, and not /", target)
	case within(clean, tasksocket.Dir) || within(tasksocket.Dir, clean):
		return types.Errorf(types.Invalid, "mount at %s: the task socket is at %s: choose another target", target, tasksocket.Dir)
	}
	return nil
}

// source returns the path of the machine that a mount shows.
func (c *Config) source(id string, i int, m types.Mount) (string, error) {
	if m.Source == "" {
		return c.scratch(id, i)
	}
	m.Source = strings.ReplaceAll(m.Source, types.NodePlaceholder, c.Node)
	if !filepath.IsAbs(m.Source) {
		return "", types.Errorf(types.Invalid, "mount %s: the path on the node must be absolute", m.Source)
	}
	// Check permission before existence: a task must not learn what exists where it has no access.
	real, err := filepath.EvalSymlinks(m.Source)
	if err != nil && !allowed(c.AllowMounts, filepath.Clean(m.Source), true) {
		return "", c.errNotAllowed(m.Source, m.Source)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", types.Errorf(types.Invalid, "mount %s: there is nothing of that name on node %s: make it there, or choose a node that has it", m.Source, c.Node)
	case err != nil:
		return "", types.Errorf(types.Invalid, "mount %s: %w", m.Source, err)
	case allowed(c.AllowMounts, real, m.ReadOnly):
		return real, nil
	case allowed(c.AllowMounts, real, true):
		return "", types.Errorf(types.Invalid, "mount %s: node %s allows it read-only: mount it read-only, or %s %s for writing", m.Source, c.Node,
			action.StartAgentWith.Of(), action.AllowMount.Of(m.Source))
	}
	return "", c.errNotAllowed(m.Source, real)
}

func (c *Config) errNotAllowed(source, real string) error {
	leads := ""
	if filepath.Clean(source) != real {
		leads = ", where it leads to,"
	}
	return types.Errorf(types.Invalid, "mount %s: node %s does not allow %s%s to be mounted: %s %s", source, c.Node, real, leads,
		action.StartAgentWith.Of(), action.AllowMount.Of(real))
}

// allowed reports whether a path, without links, may be mounted.
func allowed(by []AllowedMount, path string, readOnly bool) bool {
	return slices.ContainsFunc(by, func(a AllowedMount) bool {
		root := filepath.Clean(a.Path)
		if real, err := filepath.EvalSymlinks(root); err == nil {
			root = real
		}
		return within(path, root) && (readOnly || !a.ReadOnly)
	})
}

// within reports whether a path is dir or below it; both are clean.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// scratch makes a scratch directory if it is missing. Its content survives restarts in place.
func (c *Config) scratch(id string, i int) (string, error) {
	if c.StateDir == "" {
		return "", types.Errorf(types.Invalid, "make a scratch directory: the agent of node %s has no directory for them: run it with a state directory", c.Node)
	}
	dir := filepath.Join(c.scratchDir(id), strconv.Itoa(i))
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, scratchMode)
	}
	if err != nil {
		return "", types.Errorf(types.Unavailable, "make a scratch directory: %w", err)
	}
	return dir, nil
}

// scratchDir returns the directory of the scratch directories of a container.
func (c *Config) scratchDir(id string) string { return filepath.Join(c.StateDir, "scratch", id) }
