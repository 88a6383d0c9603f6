package secrets

import (
	"bytes"
	"encoding/base64"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

// keysOf returns keys made of single letters, the first of which seals.
func keysOf(t *testing.T, letters string) *Keys {
	t.Helper()
	var all [][]byte
	for _, l := range letters {
		all = append(all, bytes.Repeat([]byte(string(l)), keyBytes))
	}
	k, err := newKeys(all...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestSealed opens what is sealed, and nothing else.
func TestSealed(t *testing.T) {
	values := map[string][]byte{"password": []byte("sesame"), "tls.key": {0, 255, '\n'}, "empty": {}}
	seal := func(letters string) types.Secret {
		s, err := keysOf(t, letters).Seal("lab", "db", values)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	is := seal("a")
	flipped := func(at int) types.Secret {
		s := is
		b := []byte(s.Sealed)
		b[at] ^= 1
		s.Sealed = string(b)
		return s
	}
	cut := func(n int) types.Secret {
		s := is
		s.Sealed = s.Sealed[:n]
		return s
	}
	renamed := is
	renamed.Key = keysOf(t, "b").all[0].id
	for name, c := range map[string]struct {
		s        types.Secret
		keys     string
		ns, name string
		class    types.Class
		says     string
	}{
		"as sealed":                 {is, "a", "lab", "db", 0, ""},
		"by a later key of several": {is, "cba", "lab", "db", 0, ""},
		"sealed after a rotation":   {seal("ba"), "b", "lab", "db", 0, ""},
		"in another namespace":      {is, "a", "web", "db", types.Internal, "is not what a server has sealed for it"},
		"under another name":        {is, "a", "lab", "db2", types.Internal, "is not what a server has sealed for it"},
		"names run together":        {is, "a", "la", "bdb", types.Internal, "is not what a server has sealed for it"},
		"without the key":           {is, "bc", "lab", "db", types.Precondition, "none of this server: add that to the file of --secrets-key"},
		"under the id of another":   {renamed, "ab", "lab", "db", types.Internal, "is not what a server has sealed for it"},
		"another salt":              {flipped(0), "a", "lab", "db", types.Internal, "set the secret again"},
		"another nonce":             {flipped(saltBytes), "a", "lab", "db", types.Internal, "set the secret again"},
		"another ciphertext":        {flipped(saltBytes + 20), "a", "lab", "db", types.Internal, "set the secret again"},
		"another tag":               {flipped(len(is.Sealed) - 1), "a", "lab", "db", types.Internal, "set the secret again"},
		"truncated by a byte":       {cut(len(is.Sealed) - 1), "a", "lab", "db", types.Internal, "set the secret again"},
		"truncated to the salt":     {cut(saltBytes), "a", "lab", "db", types.Internal, "set the secret again"},
		"truncated to less":         {cut(saltBytes - 1), "a", "lab", "db", types.Internal, "set the secret again"},
		"empty":                     {cut(0), "a", "lab", "db", types.Internal, "set the secret again"},
	} {
		got, err := keysOf(t, c.keys).Open(c.ns, c.name, &c.s)
		switch {
		case c.says == "" && (err != nil || !maps.EqualFunc(got, values, bytes.Equal)):
			t.Errorf("%s: %q, %v", name, got, err)
		case c.says != "" && (!types.Is(err, c.class) || !strings.Contains(err.Error(), c.says) || got != nil):
			t.Errorf("%s: %q, %v; want %s, %q", name, got, err, c.class, c.says)
		}
	}
	if again := seal("a"); again.Sealed == is.Sealed || again.Sealed[:saltBytes] == is.Sealed[:saltBytes] {
		t.Error("the same values were sealed alike twice")
	}
	if strings.Contains(is.Sealed, "sesame") || strings.Contains(is.Sealed, base64.StdEncoding.EncodeToString([]byte("sesame"))) {
		t.Error("the sealed form has the value")
	}
	if want := []types.SecretEntry{{Name: "empty"}, {Name: "password", Size: 6}, {Name: "tls.key", Size: 3}}; !slices.Equal(is.Entries, want) {
		t.Errorf("entries are %v", is.Entries)
	}
}

// TestKeyFiles reads files of keys.
func TestKeyFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := MakeFile(path); err != nil {
		t.Fatal(err)
	}
	if err := MakeFile(path); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "exists") {
		t.Errorf("a second key in its place: %v", err)
	}
	if err := MakeFile(filepath.Join(path, "x")); !types.Is(err, types.Precondition) {
		t.Errorf("below a file: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	made, err := Open(path)
	if err != nil || len(made.all) != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	first, err := Open(path + "2")
	again, err2 := Open(path + "2")
	if err != nil || err2 != nil || first.all[0].id != again.all[0].id || first.all[0].id == made.all[0].id {
		t.Errorf("opened as %v and %v, %v, %v", first, again, err, err2)
	}
	line := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, keyBytes)) + "\n"
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		keys int
		says string
	}{
		"raw":                {strings.Repeat("k", keyBytes), 0o400, 1, ""},
		"three lines":        {line + "\n  " + line + line, 0o600, 3, ""},
		"readable by others": {line, 0o604, 0, "has mode 0604, so other users may have read it: chmod 0600"},
		"by the group":       {line, 0o640, 0, "has mode 0640"},
		"empty":              {"", 0o600, 0, "it has 0 keys: give 1 to 16"},
		"too short":          {line + "c2hvcnQ=\n", 0o600, 0, "line 2 is not 32 bytes in base64"},
		"no base64":          {"hunter2 is my secret key, which no error quotes\n", 0o600, 0, "line 1 is not 32 bytes in base64"},
		"too many":           {strings.Repeat(line, maxKeys+1), 0o600, 0, "it has 17 keys"},
		"too large":          {strings.Repeat("\n", maxFile+1), 0o600, 0, "is no file of keys"},
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		got, err := Load(path)
		switch {
		case c.says == "" && (err != nil || len(got.all) != c.keys):
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "escher admin secrets-key --out") {
		t.Errorf("without a file: %v", err)
	}
}

// TestKeyFileOfAnother refuses a file whose owner is another user, also to root, and what is no file.
func TestKeyFileOfAnother(t *testing.T) {
	for _, c := range []struct {
		owner uint32
		user  int
		fine  bool
	}{{0, 0, true}, {0, 7, true}, {7, 7, true}, {7, 0, false}, {7, 8, false}} {
		err := owned("/etc/key", c.owner, c.user)
		if (err == nil) != c.fine || err != nil && (!types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "/etc/key belongs to user 7")) {
			t.Errorf("of %d for %d: %v", c.owner, c.user, err)
		}
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := MakeFile(path); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // others cannot give files away
		if err := os.Chown(path, 4321, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "belongs to user 4321") {
			t.Errorf("of another user: %v", err)
		}
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, t.TempDir()} {
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "is no file of keys") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
