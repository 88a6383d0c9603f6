package image

import (
	"archive/tar"
	"compress/gzip"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/escher-sched/escher/types"
)

const (
	dirMode  fs.FileMode = 0o755
	tmpMode              = 0o1777
	execMode fs.FileMode = 0o755
	linkMode fs.FileMode = 0o777
)

// checkStatic returns Invalid if the file at path is not a static ELF binary.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return types.Errorf(types.Invalid, "read binary %s: %w; give the path of a Linux binary", path, err)
	}
	defer func() { _ = f.Close() }() // It was only read.
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return types.Errorf(types.Invalid, "read binary %s: it is dynamically linked, and the image has no libraries; build it with CGO_ENABLED=0", path)
	}
	return nil
}

// newLayer returns a layer of the files and links. It is not compressed: most do not leave the machine, and
// the node that unpacks it would need longer than a network of 1 Gbit/s saves.
func newLayer(spec Spec) (v1.Layer, error) {
	open := func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() { w.CloseWithError(writeTar(w, spec)) }()
		return r, nil
	}
	return tarball.LayerFromOpener(open, tarball.WithCompressionLevel(gzip.NoCompression), tarball.WithCompressedCaching)
}

// writeTar writes the files, links and their directories in the order of their names, owned by root
// and without times. So the same files make the same bytes. tar.Writer.AddFS would keep the times and
// modes of the machine.
func writeTar(w io.Writer, spec Spec) error {
	t := tar.NewWriter(w)
	for _, dir := range directories(spec) {
		h := tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: int64(dirMode)}
		if dir == "/tmp" {
			h.Mode = tmpMode
		}
		if err := t.WriteHeader(&h); err != nil {
			return err
		}
	}
	for _, inside := range slices.Sorted(maps.Keys(spec.Files)) {
		if err := writeFile(t, inside, spec.Files[inside]); err != nil {
			return err
		}
	}
	for _, link := range slices.Sorted(maps.Keys(spec.Links)) {
		h := tar.Header{Typeflag: tar.TypeSymlink, Name: link[1:], Linkname: spec.Links[link], Mode: int64(linkMode)}
		if err := t.WriteHeader(&h); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeFile(t *tar.Writer, inside, source string) (err error) {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := tar.Header{Typeflag: tar.TypeReg, Name: inside[1:], Mode: int64(execMode), Size: info.Size()}
	if err := t.WriteHeader(&h); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}

// directories returns every directory above files and links, and /tmp, parents first.
func directories(spec Spec) []string {
	set := map[string]bool{"/tmp": true}
	for _, paths := range []map[string]string{spec.Files, spec.Links} {
		for inside := range paths {
			for dir := path.Dir(inside); dir != "/"; dir = path.Dir(dir) {
				set[dir] = true
			}
		}
	}
	dirs := slices.Collect(maps.Keys(set))
	slices.SortFunc(dirs, strings.Compare)
	return dirs
}
