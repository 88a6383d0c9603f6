package workdir

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/types"
)

// annotationName names an image in an archive for containerd's importer.
const annotationName = "io.containerd.image.name"

// Image is the image of a tree. It has the digests of the files, and no files.
type Image struct {
	// Name is the reference: types.WorkdirRepository@sha256:….
	Name string
	// Layers are the layers, in their order.
	Layers []Layer

	tree     *Tree
	manifest ocispec.Descriptor
	blobs    map[digest.Digest][]byte // all but the layers
	index    []byte
}

// Layer is one layer: an uncompressed tar archive.
type Layer struct {
	// Digest is sha256:….
	Digest string
	Bytes  int64

	entries []*entry
}

// Image reads all files, and returns the image. Unavailable: a file changed meanwhile.
func (t *Tree) Image(ctx context.Context) (*Image, error) {
	split := t.split()
	layers := make([]Layer, len(split))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, entries := range split {
		group.Go(func() error {
			sum := newSummed(ctx, io.Discard)
			err := t.writeLayer(sum, entries)
			layers[i] = Layer{Digest: sum.digest(), Bytes: sum.n, entries: entries}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, t.failed(err)
	}
	return t.image(layers)
}

func (t *Tree) failed(err error) error {
	if _, ok := errors.AsType[*types.Error](err); ok {
		return err
	}
	return types.Errorf(types.Unavailable, "workdir: read %s: %w", t.dir, err)
}

// image makes the manifest of layers.
func (t *Tree) image(layers []Layer) (*Image, error) {
	out := &Image{Layers: layers, tree: t, blobs: make(map[digest.Digest][]byte)}
	config := ocispec.Image{Platform: ocispec.Platform{OS: "linux"}, RootFS: ocispec.RootFS{Type: "layers"}}
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for _, l := range layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest.Digest(l.Digest))
		manifest.Layers = append(manifest.Layers, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.Digest(l.Digest), Size: l.Bytes})
	}
	var err error
	if manifest.Config, err = out.blob(ocispec.MediaTypeImageConfig, config); err != nil {
		return nil, err
	}
	if out.manifest, err = out.blob(ocispec.MediaTypeImageManifest, manifest); err != nil {
		return nil, err
	}
	out.Name = types.WorkdirRepository + "@" + out.manifest.Digest.String()
	named := out.manifest
	named.Annotations = map[string]string{annotationName: out.Name}
	out.index, err = json.Marshal(ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{named},
	})
	if err != nil {
		return nil, types.Errorf(types.Internal, "make image %s: %w", out.Name, err)
	}
	return out, nil
}

// blob adds a document.
func (i *Image) blob(mediaType string, v any) (ocispec.Descriptor, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, types.Errorf(types.Internal, "make the image of a workdir: %w", err)
	}
	sum := digest.FromBytes(text)
	i.blobs[sum] = text
	return ocispec.Descriptor{MediaType: mediaType, Digest: sum, Size: int64(len(text))}, nil
}

// Digests returns the digests of the layers.
func (i *Image) Digests() []string {
	all := make([]string, len(i.Layers))
	for n, l := range i.Layers {
		all[n] = l.Digest
	}
	return all
}

// Bytes returns the size of layers by digest.
func (i *Image) Bytes(digests []string) (n int64) {
	for _, l := range i.Layers {
		if slices.Contains(digests, l.Digest) {
			n += l.Bytes
		}
	}
	return n
}

// Write writes an archive of the image, an OCI layout, with those of its layers. It reads the files
// again. Unavailable: one has changed since.
func (i *Image) Write(ctx context.Context, w io.Writer, digests []string) error {
	archive := tar.NewWriter(w)
	file := func(name string, size int64) error {
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size})
	}
	text := func(name string, text []byte) error {
		if err := file(name, int64(len(text))); err != nil {
			return err
		}
		_, err := archive.Write(text)
		return err
	}
	if err := text(ocispec.ImageLayoutFile, []byte(`{"imageLayoutVersion":"`+ocispec.ImageLayoutVersion+`"}`)); err != nil {
		return i.tree.failed(err)
	}
	for sum, blob := range i.blobs {
		if err := text(blobPath(sum.String()), blob); err != nil {
			return i.tree.failed(err)
		}
	}
	for _, l := range i.Layers {
		if !slices.Contains(digests, l.Digest) {
			continue
		}
		if err := file(blobPath(l.Digest), l.Bytes); err != nil {
			return i.tree.failed(err)
		}
		sum := newSummed(ctx, archive)
		if err := i.tree.writeLayer(sum, l.entries); err != nil {
			return i.tree.failed(err)
		}
		if sum.digest() != l.Digest {
			return types.Errorf(types.Unavailable, "workdir: %s: %w: try again when nothing writes there, or name what changes in %s", i.tree.dir, errOther, ignoreFile)
		}
	}
	if err := text(ocispec.ImageIndexFile, i.index); err != nil {
		return i.tree.failed(err)
	}
	if err := archive.Close(); err != nil {
		return i.tree.failed(err)
	}
	return nil
}

// blobPath returns the path of a blob in a layout.
func blobPath(sum string) string {
	d := digest.Digest(sum)
	return ocispec.ImageBlobsDir + "/" + d.Algorithm().String() + "/" + d.Encoded()
}

// summed counts and hashes what it writes, until ctx is done.
type summed struct {
	ctx context.Context
	w   io.Writer
	sum interface {
		io.Writer
		Sum([]byte) []byte
	}
	n int64
}

func newSummed(ctx context.Context, w io.Writer) *summed {
	return &summed{ctx: ctx, w: w, sum: sha256.New()}
}

// Write writes.
func (s *summed) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.w.Write(p)
	_, _ = s.sum.Write(p[:n]) // a hash takes everything
	s.n += int64(n)
	return n, err
}

func (s *summed) digest() string { return "sha256:" + hex.EncodeToString(s.sum.Sum(nil)) }
