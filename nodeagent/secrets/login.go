package secrets

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/distribution/reference"

	"github.com/escher-sched/escher/types"
)

const (
	// loginPrefix begins the names of secrets that have the user and the password of a registry.
	loginPrefix = "registry-"
	// Username and Password are the values of such a secret.
	Username = "username"
	Password = "password"
	// dockerHub is the registry of images without a registry in their names, and noRegistry that of loaded
	// images, which no node pulls.
	dockerHub  = "docker.io"
	noRegistry = "escher.local"
)

// Login is the user and the password of a namespace for a registry, for the pulls of an attempt. The zero
// value means none. As text it is the name of the secret.
type Login struct {
	Secret   string `json:"secret,omitempty" doc:"the name of the secret; missing means that there is none"`
	Registry string `json:"registry,omitempty" doc:"the host of the registry"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	// Created and Revision are the revisions of the creation of the secret and of its last change.
	Created  int64 `json:"created,omitempty" doc:"the revision of the creation of the secret"`
	Revision int64 `json:"revision,omitempty" doc:"the revision of its last change"`
}

// String returns the name of the secret.
func (l Login) String() string { return l.Secret }

// GoString returns the name of the secret.
func (l Login) GoString() string { return l.Secret }

// Registry returns the registry of an image, as host[:port]; empty for an image that no registry has.
func Registry(image string) string {
	named, err := reference.ParseDockerRef(image)
	if err != nil || reference.Domain(named) == noRegistry {
		return ""
	}
	return host(reference.Domain(named))
}

// host returns the one name of a registry that has several.
func host(registry string) string {
	registry = strings.ToLower(registry)
	switch registry {
	case "index.docker.io", "registry-1.docker.io":
		return dockerHub
	}
	return registry
}

// SameRegistry reports whether two hosts are the same registry.
func SameRegistry(a, b string) bool { return host(a) == host(b) }

// LoginName returns the name of the secret with the user and the password of a registry: a namespace has one
// for each registry. Invalid: it is not a registry's host[:port], or is too long for the name of a secret.
func LoginName(registry string) (string, error) {
	registry = host(registry)
	named, err := reference.ParseNormalizedNamed(registry + "/a/b")
	if err != nil || host(reference.Domain(named)) != registry {
		return "", types.Errorf(types.Invalid, "registry: %q is not the host of a registry: give what images of it begin with, such as ghcr.io or registry.lan:5000", types.Cut(registry, types.MaxName))
	}
	name := loginPrefix + strings.ReplaceAll(registry, ":", "_") // no host has a '_'
	if err := types.ValidateName("registry", name); err != nil {
		return "", types.Errorf(types.Invalid, "registry: %s has no name for its secret: %w", types.Cut(registry, types.MaxName), err)
	}
	return name, nil
}

// CheckLogin returns an error if no registry takes a user and a password. It quotes neither.
func CheckLogin(user, password string) error {
	for field, text := range map[string]string{Username: user, Password: password} {
		if text == "" || !utf8.ValidString(text) {
			return types.Errorf(types.Invalid, "%s: is missing, or is no text: give that of the registry", field)
		}
	}
	if strings.Contains(user, ":") || strings.ContainsFunc(user, unicode.IsControl) {
		return types.Errorf(types.Invalid, "%s: has a colon or a line break: give that of the registry", Username)
	}
	return nil
}
