package containerd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// loaded is the name prefix of loaded images without a name in their archive.
const loaded = localRegistry + "loaded"

// shortDigest is the length of a tag made from a digest, in characters.
const shortDigest = 12

// Load implements nodeagent.Images. Loading an image again is no error.
func (r *Runtime) Load(ctx context.Context, archive io.Reader) ([]nodeagent.Image, error) {
	leased, release, err := r.loadLease(ctx)
	if err != nil {
		return nil, classify(err, "load images")
	}
	defer release()
	source := &source{Reader: archive}
	records, err := r.importAll(quiet(leased), source)
	if err != nil {
		return nil, loadError(err, source.failed)
	}
	all := make([]nodeagent.Image, 0, len(records))
	for _, record := range records {
		described, err := r.ready(leased, record)
		if err != nil {
			r.dropWorkdir(leased, record.Name)
			return nil, err
		}
		all = append(all, described)
	}
	return all, nil
}

// ready makes a loaded image ready to run.
func (r *Runtime) ready(ctx context.Context, record images.Image) (nodeagent.Image, error) {
	if err := r.checkWorkdir(ctx, record); err != nil {
		return nodeagent.Image{}, err
	}
	img := client.NewImage(r.client, record)
	if _, err := configOf(ctx, img); err != nil {
		return nodeagent.Image{}, err
	}
	if err := r.unpacked(ctx, img); err != nil {
		return nodeagent.Image{}, err
	}
	if err := r.pin(ctx, record); err != nil {
		return nodeagent.Image{}, err
	}
	return r.describe(ctx, img)
}

// importAll reads an archive, compressed or not, and makes a record of each image.
func (r *Runtime) importAll(ctx context.Context, archive io.Reader) ([]images.Image, error) {
	// The archive ends with padding, which must also be read: a program that writes it to a pipe
	// waits for that.
	buffered := bufio.NewReader(archive)
	plain, err := compression.DecompressStream(buffered)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	records, err := r.client.Import(ctx, plain,
		client.WithImageRefTranslator(nameOf),
		client.WithDigestRef(func(d digest.Digest) string { return loaded + ":" + d.Encoded()[:shortDigest] }),
		client.WithSkipDigestRef(func(name string) bool { return name != "" }))
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, types.Errorf(types.Invalid, "there is no image in it")
	}
	if _, err := io.Copy(io.Discard, plain); err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, buffered)
	return records, err
}

// nameOf returns the full name of an image for its name in an archive, which is often only a tag.
func nameOf(ref string) string {
	if named, err := reference.ParseDockerRef(ref); err == nil && strings.ContainsAny(ref, ":/") {
		return named.String()
	}
	if named, err := reference.ParseDockerRef(loaded + ":" + ref); err == nil {
		return named.String()
	}
	return ""
}

// loadLease holds the content of an archive until its images exist. Its deletion is synchronous,
// and so includes unreferenced content: the rest of half an archive would count as the beginning of
// the next.
func (r *Runtime) loadLease(ctx context.Context) (context.Context, func(), error) {
	service := r.client.LeasesService()
	lease, err := service.Create(ctx, leases.WithRandomID(), leases.WithExpiration(keepPartial))
	if err != nil {
		return nil, nil, err
	}
	release := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanWait)
		defer cancel()
		_ = service.Delete(ctx, lease, leases.SynchronousDelete) // It also expires by itself.
	}
	return leases.WithLease(ctx, lease.ID), release, nil
}

// source is an archive that records its read error.
type source struct {
	io.Reader
	failed error
}

func (s *source) Read(into []byte) (int, error) {
	n, err := s.Reader.Read(into)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return it as it is
		s.failed = err
	}
	return n, err
}

// loadError classifies an error: the archive is invalid, or could not be read.
func loadError(err, failed error) error {
	switch {
	case failed != nil:
		return types.Errorf(types.Unavailable, "read archive of images: %w", failed)
	case isOtherPlatform(err):
		return otherPlatform(err, "of the archive")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errdefs.IsUnavailable(err), errdefs.IsCanceled(err), errdefs.IsDeadlineExceeded(err):
		return classify(err, "load images")
	}
	return types.Errorf(types.Invalid, "load images: %w; give an archive such as docker save writes", err)
}

// Images implements nodeagent.Images. It lists an image with a tag once, and not again by its
// digest.
func (r *Runtime) Images(ctx context.Context) ([]nodeagent.Image, error) {
	records, err := r.client.ImageService().List(ctx)
	if err != nil {
		return nil, classify(err, "list images")
	}
	tagged := make(map[string]bool)
	for _, record := range records {
		if p := pinned(record.Name, record.Target.Digest); p != record.Name {
			tagged[p] = true
		}
	}
	all := make([]nodeagent.Image, 0, len(records))
	for _, record := range records {
		if tagged[record.Name] {
			continue
		}
		img, err := r.describe(ctx, client.NewImage(r.client, record))
		if err != nil {
			return nil, err
		}
		all = append(all, img)
	}
	slices.SortFunc(all, func(a, b nodeagent.Image) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// describe returns an image. Created is when it arrived on this machine: the build time of a
// reproducible image does not tell its age.
func (r *Runtime) describe(ctx context.Context, img client.Image) (nodeagent.Image, error) {
	size, err := img.Size(ctx)
	if err != nil && !errdefs.IsNotFound(err) { // part of it may be missing or being removed
		return nodeagent.Image{}, classify(err, "read the size of image %s", img.Name())
	}
	var entrypoint []string
	if config, err := configOf(ctx, img); err == nil { // it may be for another platform, too
		entrypoint = config.Config.Entrypoint
	}
	return nodeagent.Image{
		Name: img.Name(), Digest: img.Target().Digest.String(), Bytes: size, Created: img.Metadata().CreatedAt, Entrypoint: entrypoint,
	}, nil
}
