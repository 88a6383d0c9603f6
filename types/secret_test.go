package types

import (
	"strings"
	"testing"
)

// TestSecretsOfASpec checks the ways in which a task gets secrets.
func TestSecretsOfASpec(t *testing.T) {
	spec := func(uses ...SecretUse) *Spec {
		return &Spec{
			Image: "x:1", Env: []string{"HOME=/x"}, Secrets: uses,
			Mounts: []Mount{{Target: "/data"}, {Target: "/var/lib/x"}}, Tmpfs: []Tmpfs{{Target: "/cache"}, {Target: "/tmp/c/ache"}}, Workdir: &Workdir{Image: UnsentWorkdir, Target: "/home/work"},
		}
	}
	for _, fine := range [][]SecretUse{
		nil,
		{{Name: "db", Env: []string{"PASSWORD=password", "_X1=tls.key"}}, {Name: "db", Dir: "/run/secrets/db"}},
		{{Name: "db", Env: []string{"P=p"}, Dir: "/secrets"}},
		{{Name: "db", Dir: "/data/db"}, {Name: "db2", Dir: "/data/d"}, {Name: "db3", Dir: "/secret"}},
	} {
		if err := spec(fine...).Validate(); err != nil {
			t.Errorf("%+v: %v", fine, err)
		}
	}
	for says, uses := range map[string][]SecretUse{
		`secrets[0].name: "a b"`:                                        {{Name: "a b", Dir: "/s"}},
		`secrets[0]: has no env and no dir`:                             {{Name: "db"}},
		`secrets[0].env.1A: is no name of a variable`:                   {{Name: "db", Env: []string{"1A=x"}}},
		`secrets[0].env.: is no name of a variable`:                     {{Name: "db", Env: []string{"=x"}}},
		`secrets[0].env.A: is empty`:                                    {{Name: "db", Env: []string{"A"}}},
		`secrets[0].env.A: "../x" contains`:                             {{Name: "db", Env: []string{"A=../x"}}},
		`secrets[0].env.HOME: the variable is set twice`:                {{Name: "db", Env: []string{"HOME=x"}}},
		`secrets[1].env.A: the variable is set twice`:                   {{Name: "db", Env: []string{"A=x"}}, {Name: "db2", Env: []string{"A=x"}}},
		`secrets[0].dir: "x" is not absolute`:                           {{Name: "db", Dir: "x"}},
		`secrets[0].dir: "/a/../b" is not a clean path: write /b`:       {{Name: "db", Dir: "/a/../b"}},
		`secrets[0].dir: "/proc/x" is part of every container`:          {{Name: "db", Dir: "/proc/x"}},
		`secrets[0].dir: "/run/escher" would hide the task's socket`:    {{Name: "db", Dir: "/run/escher"}},
		`secrets[0].dir: "/data" is mounted twice`:                      {{Name: "db", Dir: "/data"}},
		`secrets[0].dir: "/cache" is mounted twice`:                     {{Name: "db", Dir: "/cache"}},
		`secrets[0].dir: "/home/work" is mounted twice`:                 {{Name: "db", Dir: "/home/work"}},
		`secrets[0].dir: "/dev/shm" is mounted twice`:                   {{Name: "db", Dir: "/dev/shm"}},
		`secrets[1].dir: "/s" is mounted twice`:                         {{Name: "db", Dir: "/s"}, {Name: "db2", Dir: "/s"}},
		`secrets[0].dir: "/var" contains the target "/var/lib/x": choo`: {{Name: "db", Dir: "/var"}},
		`secrets[0].dir: "/home" contains the target "/home/work"`:      {{Name: "db", Dir: "/home"}},
		`secrets[0].dir: "/tmp/c" contains the target "/tmp/c/ache"`:    {{Name: "db", Dir: "/tmp/c"}},
		`secrets[1].dir: "/s" contains the target "/s/db"`:              {{Name: "db", Dir: "/s/db"}, {Name: "db2", Dir: "/s"}},
		`secrets[0].dir: "/s" contains the target "/s/x/db"`:            {{Name: "db", Dir: "/s"}, {Name: "db2", Dir: "/s/x/db"}},
		`secrets: has 17: at most 16 are allowed`:                       make([]SecretUse, MaxSecretUses+1),
		`secrets[0].env: has 65: at most 64 are allowed`:                {{Name: "db", Env: make([]string, MaxSecretEntries+1)}},
		`secrets[0].env.` + strings.Repeat("A", 37) + "...: is no name": {{Name: "db", Env: []string{strings.Repeat("A", 256) + "=x"}}},
	} {
		if err := spec(uses...).Validate(); !Is(err, Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80v: %v, want %q", uses, err, says)
		}
	}
}

// TestStoredSecret checks the bounds of a stored secret.
func TestStoredSecret(t *testing.T) {
	if err := (&Secret{Key: "0a1b", Sealed: "x\xff", Entries: []SecretEntry{{"tls.key", 5}, {"PASSWORD", 0}}, Set: 1, User: "alice"}).Validate(); err != nil {
		t.Error(err)
	}
	for says, s := range map[string]Secret{
		"key: ": {Key: "a b"}, "user: ": {User: "/"}, "set: ": {Set: -1}, "sealed: has 524289 bytes": {Sealed: strings.Repeat("x", 2*MaxSecretBytes+1)},
		"entries: has 65": {Entries: make([]SecretEntry, MaxSecretEntries+1)}, `entries[0]: "../x"`: {Entries: []SecretEntry{{"../x", 1}}},
		"entries[0].size: ": {Entries: []SecretEntry{{"x", MaxSecretValue + 1}}},
	} {
		if err := s.Validate(); !Is(err, Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60v: %v, want %q", s, err, says)
		}
	}
}
