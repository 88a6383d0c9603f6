package containerd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/secrets"
)

// An image is private if it was pulled with the secret of a namespace. Then each of its records has a label
// for each namespace that has pulled it, with the secret that this took. Other namespaces must pull it, too:
// their registry decides. One record without such labels makes the image free for all.

// labelPuller begins the label of a namespace: the ids of the cluster and of the namespace follow.
const labelPuller = "escher/puller/"

// user is the task that needs an image. The zero value is the node.
type user struct {
	namespace string
	// login returns the login of the namespace; nil means none.
	login func(context.Context) (secrets.Login, error)
}

func userOf(c nodeagent.Container) user { return user{c.Attempt.Namespace, c.Login} }

// loginOf returns the login for the image.
func (u user) loginOf(ctx context.Context) (secrets.Login, error) {
	if u.login == nil {
		return secrets.Login{}, nil
	}
	return u.login(ctx)
}

// puller is the namespace and the login of a pull. The zero value is the node, for all namespaces.
type puller struct {
	namespace string
	login     secrets.Login
}

// labelOf returns the label of the images that a puller pulls; none for the node.
func (r *Runtime) labelOf(p puller) map[string]string {
	if p.login.Secret == "" {
		return nil
	}
	// A new secret of the same name is another one: it may be of another owner of the namespace.
	return map[string]string{labelPuller + r.conf.Cluster + "/" + p.namespace: fmt.Sprintf("%s@%d", p.login.Secret, p.login.Created)}
}

// mayUse reports whether a puller has pulled a private image with the secret that the namespace has now.
func (r *Runtime) mayUse(record images.Image, p puller) bool {
	for label, value := range r.labelOf(p) {
		return record.Labels[label] == value
	}
	return false
}

// privateLabels returns the labels of the namespaces that have pulled an image.
func privateLabels(record images.Image) map[string]string {
	labels := make(map[string]string)
	for label, value := range record.Labels {
		if strings.HasPrefix(label, labelPuller) {
			labels[label] = value
		}
	}
	return labels
}

func isPrivate(record images.Image) bool { return len(privateLabels(record)) > 0 }

// pullersOf returns the labels that a pull must not drop: those of others of an image by digest, which the
// pull with a login stores again. A tag may move to an image that the others have not pulled.
func (r *Runtime) pullersOf(ctx context.Context, one *pulling) map[string]string {
	_, d, _ := strings.Cut(one.name, "@")
	if d == "" || one.by.login.Secret == "" {
		return nil
	}
	record, err := r.client.ImageService().Get(ctx, one.name)
	if err != nil {
		return nil // Then these namespaces pull it again.
	}
	others := privateLabels(record)
	for own := range r.labelOf(one.by) {
		delete(others, own)
	}
	return others
}

// addPullers adds namespaces to a private image by digest. An image that is free for all stays free.
func (r *Runtime) addPullers(ctx context.Context, name string, labels map[string]string) error {
	if len(labels) == 0 {
		return nil
	}
	record, err := r.client.ImageService().Get(ctx, name)
	if err != nil || !isPrivate(record) {
		return err
	}
	paths := make([]string, 0, len(labels))
	for label := range labels {
		paths = append(paths, "labels."+label)
	}
	_, err = r.client.ImageService().Update(ctx, images.Image{Name: name, Labels: labels}, paths...)
	return err
}

// proving is a resolver that believes no registry that merely names the digest of a private image of this
// machine: it must send the manifest. containerd would not ask for content that is here.
type proving struct {
	remotes.Resolver
	r *Runtime
}

func (r *Runtime) prove(from remotes.Resolver) proving { return proving{from, r} }

// Resolve implements remotes.Resolver.
func (p proving) Resolve(ctx context.Context, ref string) (string, ocispec.Descriptor, error) {
	name, desc, err := p.Resolver.Resolve(ctx, ref)
	if err != nil {
		return name, desc, err
	}
	hidden, err := p.r.hidden(ctx, desc.Digest)
	if err == nil && hidden {
		err = p.fetch(ctx, name, desc)
	}
	return name, desc, err
}

// hidden reports whether this machine has a manifest of which no image is free for all.
func (r *Runtime) hidden(ctx context.Context, d digest.Digest) (bool, error) {
	_, err := r.client.ContentStore().Info(ctx, d)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, classify(err, "look for manifest %s", d)
	}
	found, err := r.byDigest(ctx, d)
	for _, record := range found {
		if !isPrivate(record) {
			return false, nil
		}
	}
	return true, err
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
