package simruntime

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// blobs are the files of archives, by path. Those of layers have their digest as name.
type blobs map[string][]byte

// blobPath returns the path of a blob.
func blobPath(digest string) string {
	return path.Join(ocispec.ImageBlobsDir, strings.Replace(digest, ":", "/", 1))
}

// Load implements nodeagent.Images. It keeps the images of workdirs, and ignores others.
func (r *Runtime) Load(_ context.Context, archive io.Reader) ([]nodeagent.Image, error) {
	read := make(blobs)
	for files := tar.NewReader(archive); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			read[h.Name], err = io.ReadAll(files)
		}
		if err != nil {
			return nil, types.Errorf(types.Invalid, "load images: %w", err)
		}
	}
	var index ocispec.Index
	if err := json.Unmarshal(read[ocispec.ImageIndexFile], &index); err != nil {
		return nil, nil //nolint:nilerr // an archive of docker's
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, text := range read {
		r.blobs[name] = text
	}
	var all []nodeagent.Image
	for _, m := range index.Manifests {
		if name := types.WorkdirRepository + "@" + m.Digest.String(); m.Annotations[annotationName] == name {
			layers, err := r.blobs.layers(name)
			if lacking := r.lacking(layers); err != nil || len(lacking) > 0 {
				return nil, types.Errorf(types.Unavailable, "load images: %s lacks layers %q", name, lacking)
			}
			r.workdirs[name] = read[ocispec.ImageIndexFile]
			all = append(all, nodeagent.Image{Name: name, Digest: m.Digest.String()})
		}
	}
	return all, nil
}

// annotationName names an image in an archive.
const annotationName = "io.containerd.image.name"

// layers returns the layers of an image.
func (b blobs) layers(name string) ([]string, error) {
	_, digest, _ := strings.Cut(name, "@")
	var manifest ocispec.Manifest
	if err := json.Unmarshal(b[blobPath(digest)], &manifest); err != nil {
		return nil, types.Errorf(types.NotFound, "find workdir %s: it is not on this node", name)
	}
	var all []string
	for _, l := range manifest.Layers {
		all = append(all, l.Digest.String())
	}
	return all, nil
}

// lacking is Lacking. The caller holds r.mu.
func (r *Runtime) lacking(layers []string) []string {
	return slices.DeleteFunc(slices.Clone(layers), func(l string) bool { return r.blobs[blobPath(l)] != nil })
}

// Lacking implements nodeagent.Workdirs.
func (r *Runtime) Lacking(_ context.Context, layers []string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lacking(layers), nil
}

// Layers implements nodeagent.Workdirs.
func (r *Runtime) Layers(_ context.Context, image string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workdirs[image] == nil {
		return nil, types.Errorf(types.NotFound, "find workdir %s: it is not on this node", image)
	}
	return r.blobs.layers(image)
}

// Export implements nodeagent.Workdirs.
func (r *Runtime) Export(ctx context.Context, image string, layers []string, w io.Writer) error {
	all, err := r.Layers(ctx, image)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, digest, _ := strings.Cut(image, "@")
	archive := tar.NewWriter(w)
	names := []string{ocispec.ImageLayoutFile, blobPath(digest)}
	for _, l := range slices.DeleteFunc(all, func(l string) bool { return !slices.Contains(layers, l) }) {
		names = append(names, blobPath(l))
	}
	write := func(name string, text []byte) error {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			return err
		}
		_, err := archive.Write(text)
		return err
	}
	for _, name := range names {
		if err := write(name, r.blobs[name]); err != nil {
			return err
		}
	}
	if err := write(ocispec.ImageIndexFile, r.workdirs[image]); err != nil {
		return err
	}
	return archive.Close()
}
