package secrets

import (
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestLoginName gives each registry one secret, under all of its names, and refuses what is no registry.
func TestLoginName(t *testing.T) {
	for registry, want := range map[string]string{
		"ghcr.io":              "registry-ghcr.io",
		"GHCR.io":              "registry-ghcr.io",
		"registry.lan:5000":    "registry-registry.lan_5000",
		"localhost:5000":       "registry-localhost_5000",
		"127.0.0.1:5000":       "registry-127.0.0.1_5000",
		"docker.io":            "registry-docker.io",
		"index.docker.io":      "registry-docker.io",
		"registry-1.docker.io": "registry-docker.io",
		"123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com": "registry-123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com",
	} {
		if got, err := LoginName(registry); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %s", registry, got, err, want)
		}
	}
	for registry, says := range map[string]string{
		"":                              `registry: "" is not the host`,
		"https://ghcr.io":               "is not the host of a registry: give what images of it begin with",
		"ghcr.io/team":                  "is not the host",
		"ghcr.io/":                      "is not the host",
		"registry":                      "is not the host",
		"a_b.io":                        "is not the host",
		"user@ghcr.io":                  "is not the host",
		"ghcr.io:":                      "is not the host",
		"[::1]:5000":                    "has no name for its secret",
		strings.Repeat("a", 60) + ".io": "has no name for its secret",
	} {
		if got, err := LoginName(registry); !types.Is(err, types.Invalid) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: %q, %v, want %s", registry, got, err, says)
		}
	}
}

// TestRegistry finds the registry in the name of an image, which has the same secret as its host.
func TestRegistry(t *testing.T) {
	for image, want := range map[string]string{
		"busybox":                                     "docker.io",
		"team/app:v1":                                 "docker.io",
		"docker.io/library/busybox:1.36":              "docker.io",
		"index.docker.io/team/app":                    "docker.io",
		"registry-1.docker.io/team/app":               "docker.io",
		"ghcr.io/team/app:v1":                         "ghcr.io",
		"GHCR.io/team/app:v1":                         "ghcr.io",
		"registry.lan:5000/app":                       "registry.lan:5000",
		"localhost/app":                               "localhost",
		"ghcr.io/a@sha256:" + strings.Repeat("0", 64): "ghcr.io",
		"escher.local/demo:latest":                    "",
		"Not A Reference":                             "",
	} {
		if got := Registry(image); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
	if !SameRegistry("registry-1.docker.io", "docker.io") || !SameRegistry("GHCR.io", "ghcr.io") || SameRegistry("ghcr.io", "ghcr.io:443") || SameRegistry("a.ghcr.io", "ghcr.io") {
		t.Error("hosts of one registry are not the same, or those of two are")
	}
}

// TestLoginHidesThePassword prints a login in all ways of package fmt.
func TestLoginHidesThePassword(t *testing.T) {
	l := Login{Secret: "registry-ghcr.io", Username: "ann", Password: "sesame"}
	for _, text := range []string{fmt.Sprint(l), fmt.Sprintf("%+v", l), fmt.Sprintf("%#v", l), fmt.Sprintf("%v", []Login{l}), fmt.Sprintf("%+v", struct{ L Login }{l}), (&l).String()} {
		if strings.Contains(text, "sesame") || !strings.Contains(text, "registry-ghcr.io") {
			t.Errorf("printed as %s", text)
		}
	}
}

// TestCheckLogin refuses users and passwords that no registry takes, and quotes none.
func TestCheckLogin(t *testing.T) {
	for _, c := range []struct{ user, password, says string }{
		{"ann", "sesame", ""},
		{"_json_key", "{\n\"key\": 1\n}", ""},
		{"", "sesame", "username: is missing"},
		{"ann", "", "password: is missing"},
		{"ann", "sesame\xff", "password: is missing, or is no text"},
		{"ann:x", "sesame", "username: has a colon"},
		{"ann\n", "sesame", "username: has a colon or a line break"},
	} {
		err := CheckLogin(c.user, c.password)
		if (err == nil) != (c.says == "") || err != nil && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "sesame")) {
			t.Errorf("%q: %v, want %q", c.user, err, c.says)
		}
	}
}
