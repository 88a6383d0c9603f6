package containerd

import (
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// TestWorkdirMount tests that the mount is after those above it and before those below it.
func TestWorkdirMount(t *testing.T) {
	for mounts, want := range map[string]string{
		"":                      "/a/b",
		"/proc /a":              "/proc /a /a/b",
		"/proc /a/b/c /a/bc":    "/proc /a/b /a/b/c /a/bc",
		"/a /a/bc /a/b/c /x":    "/a /a/bc /a/b /a/b/c /x",
		"/x /a/b/c /a/b/d /a/z": "/x /a/b /a/b/c /a/b/d /a/z",
	} {
		spec := new(oci.Spec)
		for target := range strings.FieldsSeq(mounts) {
			spec.Mounts = append(spec.Mounts, specs.Mount{Destination: target})
		}
		withWorkdir(spec, nil)
		withWorkdir(spec, &specs.Mount{Destination: "/a/b"})
		var got []string
		for _, m := range spec.Mounts {
			got = append(got, m.Destination)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("mounts %q become %q, want %q", mounts, got, want)
		}
	}
}

func TestUpperDirectory(t *testing.T) {
	for want, m := range map[string]mount.Mount{
		"/s/2/fs": {Type: "overlay", Source: "overlay", Options: []string{"workdir=/s/2/work", "upperdir=/s/2/fs", "lowerdir=/s/1/fs"}},
		"/s/1/fs": {Type: "bind", Source: "/s/1/fs", Options: []string{"rw", "rbind"}},
	} {
		if got := upperOf(m); got != want {
			t.Errorf("changes of %+v are in %q, want %q", m, got, want)
		}
	}
}
