package image

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/escher-sched/escher/types"
)

// build compiles a program of one line.
func build(t *testing.T, cgo string, imports string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n"+imports+"\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "main")
	args := []string{"build", "-o", binary}
	if cgo == "1" {
		args = append(args, "-ldflags=-linkmode=external")
	}
	cmd := exec.Command("go", append(args, source)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

func TestSameBinariesMakeTheSameImage(t *testing.T) {
	binary := build(t, "0", "")
	spec := Spec{Name: "escher.local/demo:latest", Files: map[string]string{"/bin/a": binary, "/opt/x/b": binary}}
	var first, second bytes.Buffer
	for _, w := range []io.Writer{&first, &second} {
		if err := Write(w, spec); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two images of the same binaries differ")
	}
}

func TestImageHoldsTheBinaries(t *testing.T) {
	binary := build(t, "0", "")
	img, err := Build(Spec{Name: "escher.local/demo:latest", Files: map[string]string{"/bin/b": binary, "/bin/a": binary}, Links: map[string]string{"/usr/bin/sh": "/bin/b"}})
	if err != nil {
		t.Fatal(err)
	}
	conf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := conf.Config; len(got.Entrypoint) > 0 || !slices.Equal(got.Cmd, []string{"/bin/a"}) {
		t.Errorf("entry point %q and command %q, want none and the first file", got.Entrypoint, got.Cmd)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v; want one", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := []string{"bin/", "tmp/", "usr/", "usr/bin/", "bin/a", "bin/b", "usr/bin/sh -> /bin/b"}
	if got := namesOf(t, r); !slices.Equal(got, want) {
		t.Errorf("layer holds %q, want %q", got, want)
	}
}

func namesOf(t *testing.T, r io.Reader) []string {
	t.Helper()
	var names []string
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 0 {
			t.Errorf("%s has time %s, want none", h.Name, h.ModTime)
		}
		if h.Typeflag == tar.TypeSymlink {
			h.Name += " -> " + h.Linkname
		}
		names = append(names, h.Name)
	}
}

func TestRefuses(t *testing.T) {
	static, dynamic := build(t, "0", ""), build(t, "1", `import "C"`)
	for name, spec := range map[string]Spec{
		"no files":       {Name: "escher.local/a:b"},
		"missing file":   {Name: "escher.local/a:b", Files: map[string]string{"/a": "/nowhere"}},
		"dynamic binary": {Name: "escher.local/a:b", Files: map[string]string{"/a": dynamic}},
		"relative path":  {Name: "escher.local/a:b", Files: map[string]string{"a": static}},
		"bad name":       {Name: "Not A Name", Files: map[string]string{"/a": static}},
	} {
		if err := Write(io.Discard, spec); !types.Is(err, types.Invalid) {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
}
