package nodeapi

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// archive makes a tar archive of entries.
func archive(f *testing.F, entries ...tar.Header) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range entries {
		h := &entries[i]
		if err := w.WriteHeader(h); err != nil {
			f.Fatal(err)
		}
		if _, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size))); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	return b.Bytes()
}

// FuzzUnpack unpacks any bytes as an archive into a directory of a container: whatever they are,
// nothing outside the root changes.
func FuzzUnpack(f *testing.F) {
	f.Add(archive(f, tar.Header{Name: "a/b", Typeflag: tar.TypeReg, Size: 5, Mode: 0o644}))
	f.Add(archive(f, tar.Header{Name: "../../out", Typeflag: tar.TypeReg, Size: 5, Mode: 0o644}))
	f.Add(archive(f, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../../beside"}, tar.Header{Name: "l/x", Typeflag: tar.TypeReg, Size: 1, Mode: 0o600}))
	f.Add(archive(f, tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "../../../secret"}, tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o7777}))
	f.Add(archive(f, tar.Header{Name: "p", Typeflag: tar.TypeFifo}, tar.Header{Name: "c", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		for _, name := range []string{"root/inner", "beside"} {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("s"), 0o600); err != nil {
			t.Fatal(err)
		}
		tree, err := openTree(filepath.Join(dir, "root"))
		if err != nil {
			t.Fatal(err)
		}
		defer tree.close()
		u := &unpacker{tree: tree, dir: "/inner"}
		_ = u.unpack(bytes.NewReader(text)) // refused or not: the resulting files matter
		names, err := os.ReadDir(dir)
		if err != nil || len(names) != 3 {
			t.Fatalf("%v beside the root, %v", names, err)
		}
		inside, err := os.ReadDir(filepath.Join(dir, "beside"))
		secret, errSecret := os.ReadFile(filepath.Join(dir, "secret"))
		if err != nil || errSecret != nil || len(inside) > 0 || string(secret) != "s" {
			t.Fatalf("%v, %q, %v, %v", inside, secret, err, errSecret)
		}
	})
}
