package workdir

import (
	"archive/tar"
	"cmp"
	"hash/fnv"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"
)

const (
	// ownLayer is the size of a file from which on it has a layer of its own, and maxOwn how many
	// files have one: the largest.
	ownLayer = 8 << 20
	maxOwn   = 8
	// maxBuckets is the number of layers of the other files. All layers of an image become one
	// mount, whose options have at most a page.
	maxBuckets = 16
	// bucketBytes is the size up to which a layer is not worth splitting.
	bucketBytes = 1 << 20
	// tarBlock is the size of blocks of a tar archive. A small file takes two or three.
	tarBlock = 512
)

// split returns the entries of each layer. It depends on the entries alone. Layers of large files
// come first: nodes share the files of equal first layers.
func (t *Tree) split() [][]*entry {
	var large, rest []*entry
	for i := range t.entries {
		e := &t.entries[i]
		if e.size >= ownLayer {
			large = append(large, e)
			continue
		}
		rest = append(rest, e)
	}
	slices.SortStableFunc(large, func(a, b *entry) int { return cmp.Compare(b.size, a.size) })
	if len(large) > maxOwn {
		rest = append(rest, large[maxOwn:]...)
		large = large[:maxOwn]
	}
	byPath := func(a, b *entry) int { return cmp.Compare(a.path, b.path) }
	slices.SortFunc(large, byPath)
	slices.SortFunc(rest, byPath)
	layers := make([][]*entry, 0, maxOwn+maxBuckets)
	for _, e := range large {
		layers = append(layers, []*entry{e})
	}
	buckets := make([][]*entry, bucketsFor(rest))
	for _, e := range rest {
		h := fnv.New32a()
		_, _ = io.WriteString(h, e.path) // a hash takes everything
		n := h.Sum32() % uint32(len(buckets))
		buckets[n] = append(buckets[n], e)
	}
	for _, b := range buckets {
		if len(b) > 0 {
			layers = append(layers, b)
		}
	}
	if len(layers) == 0 {
		layers = append(layers, nil) // an empty directory
	}
	return layers
}

// bucketsFor returns the number of layers for entries: a power of two, so that it rarely changes.
func bucketsFor(entries []*entry) int {
	var size int64
	for _, e := range entries {
		size += tarBlock + (e.size+tarBlock-1)/tarBlock*tarBlock
	}
	n := 1
	for n < maxBuckets && int64(n)*bucketBytes < size {
		n *= 2
	}
	return n
}

// modified is the time of all files: equal files must make equal layers. It is after 1980, where
// the times of zip archives begin.
func modified() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// shared is the mode of an entry: every user of the container has the rights of the owner here. The
// container may run as any user, and the files are its alone.
func shared(mode fs.FileMode) int64 {
	if mode.IsDir() {
		return 0o777
	}
	owner := int64(mode.Perm()) >> 6
	return owner<<6 | owner<<3 | owner
}

// writeLayer writes the archive of a layer: the entries, and the directories above them.
func (t *Tree) writeLayer(w io.Writer, entries []*entry) error {
	archive := tar.NewWriter(w)
	written := make(map[string]bool)
	var directory func(p string) error
	directory = func(p string) error {
		if written[p] {
			return nil
		}
		if p != "." {
			if err := directory(path.Dir(p)); err != nil {
				return err
			}
		}
		written[p] = true
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: p + "/", Mode: shared(fs.ModeDir), ModTime: modified()})
	}
	if err := directory("."); err != nil {
		return err
	}
	for _, e := range entries {
		if err := directory(path.Dir(e.path)); err != nil {
			return err
		}
		if e.mode.IsDir() {
			if err := directory(e.path); err != nil {
				return err
			}
			continue
		}
		if err := t.writeEntry(archive, e); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (t *Tree) writeEntry(archive *tar.Writer, e *entry) error {
	h := tar.Header{Typeflag: tar.TypeReg, Name: e.path, Mode: shared(e.mode), Size: e.size, ModTime: modified()}
	if e.mode.Type() == fs.ModeSymlink {
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.link, 0o777
	}
	if err := archive.WriteHeader(&h); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeSymlink {
		return nil
	}
	return t.copyFile(archive, e)
}
