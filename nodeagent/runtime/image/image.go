// Package image makes container images from static binaries. It needs no registry and no build
// daemon. An image contains only the binaries, links to them and an empty /tmp.
package image

import (
	"io"
	"maps"
	"path"
	"runtime"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/escher-sched/escher/types"
)

// LocalRegistry prefixes the names of loaded images. They are never pulled.
const LocalRegistry = "escher.local/"

// Spec is the content of an image.
type Spec struct {
	// Name is the reference, such as escher.local/demo:latest.
	Name string
	// Files maps each path in the image to a binary on this machine.
	Files map[string]string
	// Links maps each path of a link in the image to the path that it leads to.
	Links map[string]string
	// Entrypoint is the program that gets the command of a task as arguments; empty means none.
	Entrypoint []string
	// Command is the command of tasks that have none. If it and Entrypoint are empty, it is the
	// first path of Files in alphabetical order.
	Command []string
}

// Build makes the image. The same binaries make the same image, bit by bit. Invalid: a file is
// missing or not a static binary, or a path or the name is invalid.
func Build(spec Spec) (v1.Image, error) {
	if len(spec.Files) == 0 {
		return nil, types.Errorf(types.Invalid, "build image %s: no files; name at least one binary", spec.Name)
	}
	inside := slices.Sorted(maps.Keys(spec.Files))
	for _, p := range inside {
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" {
			return nil, types.Errorf(types.Invalid, "build image %s: path %q inside is not absolute and clean; write it like /bin/demo", spec.Name, p)
		}
		if err := checkStatic(spec.Files[p]); err != nil {
			return nil, err
		}
	}
	layer, err := newLayer(spec)
	if err != nil {
		return nil, types.Errorf(types.Internal, "build layer of image %s: %w", spec.Name, err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, types.Errorf(types.Internal, "build image %s: %w", spec.Name, err)
	}
	return configure(img, spec, inside[0])
}

func configure(img v1.Image, spec Spec, first string) (v1.Image, error) {
	conf, err := img.ConfigFile()
	if err != nil {
		return nil, types.Errorf(types.Internal, "build image %s: %w", spec.Name, err)
	}
	conf = conf.DeepCopy()
	conf.OS, conf.Architecture = "linux", runtime.GOARCH
	conf.Config.Entrypoint, conf.Config.Cmd = spec.Entrypoint, spec.Command
	if len(spec.Entrypoint)+len(spec.Command) == 0 {
		conf.Config.Cmd = []string{first}
	}
	conf.Config.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	conf.Config.WorkingDir = "/"
	img, err = mutate.ConfigFile(img, conf)
	if err != nil {
		return nil, types.Errorf(types.Internal, "build image %s: %w", spec.Name, err)
	}
	return img, nil
}

// Write builds the image and writes it to w as an archive for containerd's importer and docker
// load.
func Write(w io.Writer, spec Spec) error {
	ref, err := name.NewTag(spec.Name, name.StrictValidation)
	if err != nil {
		return types.Errorf(types.Invalid, "build image %q: %w; a name is like escher.local/demo:latest", spec.Name, err)
	}
	img, err := Build(spec)
	if err != nil {
		return err
	}
	if err := tarball.Write(ref, img, w); err != nil {
		return types.Errorf(types.Internal, "write image %s: %w", spec.Name, err)
	}
	return nil
}
