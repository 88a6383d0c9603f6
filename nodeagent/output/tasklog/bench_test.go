package tasklog

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkCopy measures a logger from a container's write to the end of its output. The program
// writes lines one by one, as unbuffered programs do, or in large pieces; both streams in turn.
func BenchmarkCopy(b *testing.B) {
	for _, c := range []struct {
		name  string
		bytes int
	}{{"lines", 80}, {"pages", 4 << 10}, {"pieces", 64 << 10}} {
		b.Run(c.name, func(b *testing.B) {
			text := append(bytes.Repeat([]byte("x"), c.bytes-1), '\n')
			b.SetBytes(int64(c.bytes))
			out, outW, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			errs, errW, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			go func() {
				for i := range b.N {
					w := outW
					if i%8 == 0 {
						w = errW
					}
					if _, err := w.Write(text); err != nil {
						b.Error(err)
						break
					}
				}
				outW.Close()
				errW.Close()
			}()
			w := newWriter(Config{Path: filepath.Join(b.TempDir(), "1.log"), MaxBytes: DefaultMaxBytes})
			if err := copyTo(w, out, errs, new(pipeEnd)); err != nil {
				b.Fatal(err)
			}
		})
	}
}
