package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
)

// TestImageName makes a name of any file's name.
func TestImageName(t *testing.T) {
	for base, want := range map[string]string{
		"app": "app", "My_App.V2": "my-app-v2", "-x-": "x", "grün": "gr-n", "___": "binary", "": "binary", "7z": "7z",
	} {
		if got := imageName(base); got != want {
			t.Errorf("%q: %s, want %s", base, got, want)
		}
	}
}

// TestBinaryImage names an image by the contents of its binary.
func TestBinaryImage(t *testing.T) {
	dir := t.TempDir()
	names := make(map[string]bool)
	for _, x := range []struct{ path, text string }{{"a/App", "1"}, {"b/App", "1"}, {"c/App", "2"}} {
		path := filepath.Join(dir, x.path)
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		spec, err := BinaryImage(path)
		if err != nil || spec.Files["/bin/App"] != path || !strings.Contains(spec.Name, "/app:") {
			t.Errorf("%+v, %v", spec, err)
		}
		names[spec.Name] = true
	}
	if len(names) != 2 {
		t.Errorf("two binaries are the images %v", names)
	}
	for _, path := range []string{dir, filepath.Join(dir, "missing")} {
		if _, err := BinaryImage(path); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), "binary: ") || !strings.HasSuffix(err.Error(), "give the path of a static binary") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestImageRow cuts the digest, and shows no age that is not known.
func TestImageRow(t *testing.T) {
	for want, row := range map[string]imageRow{
		"a|n|0123456789ab|1.0 KiB|": {Name: "a", Node: "n", Digest: "sha256:0123456789abcdef", Bytes: 1024},
		"a|n|short|0 B|3h":          {Name: "a", Node: "n", Digest: "short", Bytes: -1, Created: time.Now().Add(-3*time.Hour - time.Minute)},
		"a|n||1.5 MiB|":             {Name: "a", Node: "n", Bytes: 3 << 19},
		"a|n|sha512:01234|8.0 EiB|": {Name: "a", Node: "n", Digest: "sha512:0123456789", Bytes: 1<<63 - 1},
	} {
		if got := strings.Join(row.Row(), "|"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
