package containerd

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containerd/platforms"
	"github.com/google/go-containerregistry/pkg/name"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"

	"github.com/escher-sched/escher/nodeagent/runtime/containerd/private"
	"github.com/escher-sched/escher/nodeagent/runtime/registry"
	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// DefaultRegistryDir is where containerd's own tools look for hosts.toml.
const DefaultRegistryDir = "/etc/containerd/certs.d"

// dockerHub is the host name of the registry of docker.io.
const dockerHub = "registry-1.docker.io"

// resolver returns the client of registries. It uses the mirrors and certificates of RegistryDir,
// a login for its registry, else the credentials of docker login, and plain HTTP for a registry on
// this machine without TLS. It reads all of them again for each pull.
func (r *Runtime) resolver(ctx context.Context, login secrets.Login) remotes.Resolver {
	return docker.NewResolver(docker.ResolverOptions{
		Hosts: config.ConfigureHosts(ctx, config.HostOptions{
			HostDir: config.HostDirFromRoot(r.conf.RegistryDir),
			Credentials: func(host string) (user, secret string, err error) {
				if login.Secret != "" && secrets.SameRegistry(host, login.Registry) {
					return login.Username, login.Password, nil
				}
				return r.credentials(host)
			},
			UpdateClient: func(c *http.Client) error {
				c.Transport = registry.Guard(c.Transport, login)
				return nil
			},
		}),
		Headers: http.Header{"User-Agent": {"escher"}},
	})
}

// credentials returns the node's user and secret for a registry; a token has no user.
func (r *Runtime) credentials(host string) (user, secret string, err error) {
	if host == dockerHub {
		host = name.DefaultRegistry
	}
	named, err := name.NewRegistry(host)
	if err != nil {
		return "", "", types.Errorf(types.Invalid, "find the credentials of registry %q: %w", host, err)
	}
	found, err := r.conf.Keychain.Resolve(named)
	if err != nil {
		return "", "", types.Errorf(types.Unavailable, "find the credentials of registry %s: %w; see config.json of docker", host, err)
	}
	auth, err := found.Authorization()
	if err != nil {
		return "", "", types.Errorf(types.Unavailable, "find the credentials of registry %s: %w; see config.json of docker", host, err)
	}
	if auth.IdentityToken != "" {
		return "", auth.IdentityToken, nil
	}
	return auth.Username, auth.Password, nil
}

// quiet keeps containerd's libraries from writing to standard error: failures are returned as
// errors.
func quiet(ctx context.Context) context.Context {
	silent := logrus.New()
	silent.SetOutput(io.Discard)
	return log.WithLogger(ctx, logrus.NewEntry(silent))
}

// registryError is an error from a registry, not from containerd.
type registryError struct{ error }

func (e registryError) Unwrap() error { return e.error }

func ofRegistry(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // readers return it as it is
		return err
	}
	return registryError{err}
}

// pullError returns why an image could not be pulled for p, and whether it ever can. If the registry
// answered, it leaves out the messages of containerd's libraries.
func pullError(err error, ref string, p private.Puller) error {
	if _, classified := errors.AsType[*types.Error](err); classified {
		return types.Errorf(types.ClassOf(err), "pull image %s: %w", ref, err)
	}
	answer, answered := errors.AsType[registryError](err)
	if answered {
		err = answer
	}
	status, failed := errors.AsType[remoteerrors.ErrUnexpectedStatus](err)
	said := registry.Hide(err, p.Login)
	switch {
	case isOtherPlatform(err):
		return otherPlatform(said, ref)
	case isRefused(err):
		return refusedPull(said, ref, p)
	case answered && errdefs.IsNotFound(err):
		return types.Errorf(types.NotFound, "pull image %s: the registry does not have it; check its name and tag; an image of your own needs no registry: %s", ref, action.LoadImage.Of())
	case errdefs.IsNotImplemented(err):
		return types.Errorf(types.Invalid, "pull image %s: %w; rebuild it with a current tool", ref, said)
	case isDamaged(err):
		return types.Errorf(types.Unavailable, "pull image %s: what the registry sent is not what its digest says: %w", ref, said)
	case failed:
		return types.Errorf(types.Unavailable, "pull image %s: the registry answered %d %s to %s %s", ref, status.StatusCode, http.StatusText(status.StatusCode), status.RequestMethod, status.RequestURL)
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return types.Errorf(types.Unavailable, "pull image %s: this node does not reach the registry: %w; check its network and proxy, or bring the image there: %s", ref, said, action.LoadImage.Of())
	}
	return types.Errorf(types.Unavailable, "pull image %s: %w", ref, said)
}

// refusedPull is the error about a registry that denies access. Registries also answer this for missing
// images.
func refusedPull(err error, ref string, p private.Puller) error {
	host := secrets.Registry(ref)
	set := action.SetLogin.Of(host).In(p.Namespace)
	if p.Login.Secret != "" {
		return types.Errorf(types.NotFound, "pull image %s: registry %s refuses the user of secret %s in namespace %s: %w; check the name of the image, and whether this user may read it; %s",
			ref, host, p.Login.Secret, p.Namespace, err, set)
	}
	return types.Errorf(types.NotFound, "pull image %s: not authorised: %w; check its name, and %s, or use docker login on the node as the agent's user, or give the agent DOCKER_CONFIG; an image of your own needs no registry: %s",
		ref, err, set, action.LoadImage.Of())
}

// isRefused reports whether a registry denies access.
func isRefused(err error) bool {
	if errors.Is(err, docker.ErrInvalidAuthorization) {
		return true
	}
	status, ok := errors.AsType[remoteerrors.ErrUnexpectedStatus](err)
	return ok && (status.StatusCode == http.StatusUnauthorized || status.StatusCode == http.StatusForbidden)
}

// isDamaged reports whether content does not match its digest or size.
func isDamaged(err error) bool { return errdefs.IsFailedPrecondition(err) }

// isUnresumable reports whether a registry cannot resume in the middle of content.
func isUnresumable(err error) bool {
	status, ok := errors.AsType[remoteerrors.ErrUnexpectedStatus](err)
	return ok && status.StatusCode == http.StatusRequestedRangeNotSatisfiable
}

// isOtherPlatform reports whether an index has nothing for this platform. There is no specific
// error.
func isOtherPlatform(err error) bool {
	return errdefs.IsNotFound(err) && strings.Contains(err.Error(), "no match for platform")
}

func otherPlatform(err error, ref string) error {
	return types.Errorf(types.Invalid, "use image %s: %w; this machine is %s: name an image for that",
		ref, err, platforms.Format(platforms.DefaultSpec()))
}

// checkPlatform returns Invalid for an image of another platform: containerd checks the entries of
// an index, but not a single image.
func checkPlatform(config ocispec.Image, ref string) error {
	if config.Architecture == "" || platforms.Default().Match(config.Platform) {
		return nil
	}
	return otherPlatform(errors.New("it is for "+platforms.Format(config.Platform)), ref)
}
