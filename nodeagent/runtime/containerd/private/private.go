// Package private remembers which namespaces may run an image. An image is private if it was pulled with the
// secret of a namespace. Then each of its records has a label for each namespace that has pulled it, with the
// secret that this took. Other namespaces must pull it, too: their registry decides. One record without such
// labels makes the image free for all.
package private

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
)

// prefix begins the label of a namespace: the ids of the cluster and of the namespace follow.
const prefix = "escher/puller/"

// Puller is the namespace and the login of a pull. The zero value is the node, for all namespaces.
type Puller struct {
	Namespace string
	Login     secrets.Login
}

// Store is where containerd keeps images and their content.
type Store struct {
	// Cluster is the id of the cluster: namespaces of others have the same names.
	Cluster string
	Images  images.Store
	Content content.Store
}

// Label returns the label of the images that a puller pulls; none for the node.
func (s Store) Label(p Puller) map[string]string {
	if p.Login.Secret == "" {
		return nil
	}
	// A new secret of the same name is another one: it may be of another owner of the namespace.
	return map[string]string{prefix + s.Cluster + "/" + p.Namespace: fmt.Sprintf("%s@%d", p.Login.Secret, p.Login.Created)}
}

// MayUse reports whether a puller has pulled a private image with the secret that the namespace has now.
func (s Store) MayUse(record images.Image, p Puller) bool {
	for label, value := range s.Label(p) {
		return record.Labels[label] == value
	}
	return false
}

// Labels returns the labels of the namespaces that have pulled an image.
func Labels(record images.Image) map[string]string {
	labels := make(map[string]string)
	for label, value := range record.Labels {
		if strings.HasPrefix(label, prefix) {
			labels[label] = value
		}
	}
	return labels
}

// Is reports whether an image is private under this name.
func Is(record images.Image) bool { return len(Labels(record)) > 0 }

// Others returns the labels of other namespaces, which a pull by digest must not drop when it stores the
// image again. A tag may move to an image that the others have not pulled, so it has none.
func (s Store) Others(ctx context.Context, name string, p Puller) map[string]string {
	if !strings.Contains(name, "@") || p.Login.Secret == "" {
		return nil
	}
	record, err := s.Images.Get(ctx, name)
	if err != nil {
		return nil // Then these namespaces pull it again.
	}
	others := Labels(record)
	for own := range s.Label(p) {
		delete(others, own)
	}
	return others
}

// Add adds namespaces to a private image by digest. An image that is free for all stays free.
func (s Store) Add(ctx context.Context, name string, labels map[string]string) error {
	if len(labels) == 0 {
		return nil
	}
	record, err := s.Images.Get(ctx, name)
	if err != nil || !Is(record) {
		return err
	}
	paths := make([]string, 0, len(labels))
	for label := range labels {
		paths = append(paths, "labels."+label)
	}
	_, err = s.Images.Update(ctx, images.Image{Name: name, Labels: labels}, paths...)
	return err
}

// ByDigest returns all names of an image.
func (s Store) ByDigest(ctx context.Context, d digest.Digest) ([]images.Image, error) {
	return s.Images.List(ctx, fmt.Sprintf("target.digest==%q", d))
}

// proving is a resolver that believes no registry that merely names the digest of a private image of this
// machine: it must send the manifest. containerd would not ask for content that is here.
type proving struct {
	remotes.Resolver
	s Store
}

// Prove returns a resolver whose registry must send the manifest of an image that is private here.
func (s Store) Prove(from remotes.Resolver) remotes.Resolver { return proving{from, s} }

// Resolve implements remotes.Resolver.
func (p proving) Resolve(ctx context.Context, ref string) (string, ocispec.Descriptor, error) {
	name, desc, err := p.Resolver.Resolve(ctx, ref)
	if err != nil {
		return name, desc, err
	}
	hidden, err := p.s.hidden(ctx, desc.Digest)
	if err == nil && hidden {
		err = p.fetch(ctx, name, desc)
	}
	return name, desc, err
}

// hidden reports whether this machine has a manifest of which no image is free for all.
func (s Store) hidden(ctx context.Context, d digest.Digest) (bool, error) {
	_, err := s.Content.Info(ctx, d)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, types.Errorf(types.Unavailable, "look for manifest %s: %w", d, err)
	}
	found, err := s.ByDigest(ctx, d)
	if err != nil {
		return false, types.Errorf(types.Unavailable, "list the images of manifest %s: %w", d, err)
	}
	for _, record := range found {
		if !Is(record) {
			return false, nil
		}
	}
	return true, nil
}

// fetch reads a manifest from its registry, and drops it. FailedPrecondition, of containerd: it is another.
func (p proving) fetch(ctx context.Context, name string, desc ocispec.Descriptor) error {
	fetcher, err := p.Fetcher(ctx, name)
	if err != nil {
		return err
	}
	body, err := fetcher.Fetch(ctx, desc)
	if err != nil {
		return err
	}
	defer body.Close()
	verifier := desc.Digest.Verifier()
	if _, err := io.Copy(verifier, io.LimitReader(body, desc.Size)); err != nil {
		return err
	}
	if !verifier.Verified() {
		return fmt.Errorf("the manifest has not the digest %s: %w", desc.Digest, errdefs.ErrFailedPrecondition)
	}
	return nil
}
