package runtimetest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"

	"github.com/escher-sched/escher/nodeagent/runtime/workdir"
	"github.com/escher-sched/escher/types"
)

func workdirTests() []namedTest {
	return []namedTest{
		{"Workdir", testWorkdir},
		{"NoSuchWorkdir", testNoSuchWorkdir},
		{"WorkdirOfAnotherNode", testWorkdirTravels},
		{"WorkdirWithoutLayers", testWorkdirWithoutLayers},
	}
}

// image packs a new directory with a file of these contents.
func (s *suite) image(contents string) *workdir.Image {
	s.Helper()
	dir := s.TempDir()
	s.must(os.WriteFile(filepath.Join(dir, "file"), []byte(contents), 0o600))
	tree, err := workdir.Scan(s.ctx(), dir)
	s.must(err)
	img, err := tree.Image(s.ctx())
	s.must(err)
	return img
}

// archive returns the archive of an image with these layers.
func (s *suite) archive(img *workdir.Image, layers []string) *bytes.Buffer {
	s.Helper()
	var archive bytes.Buffer
	s.must(img.Write(s.ctx(), &archive, layers))
	return &archive
}

func testWorkdir(s *suite) {
	img := s.image("of " + s.node)
	lacking, err := s.Lacking(s.ctx(), img.Digests())
	s.must(err)
	if !slices.Equal(lacking, img.Digests()) {
		s.Errorf("lacks %q of a new image, want all of %q", lacking, img.Digests())
	}
	_, err = s.Layers(s.ctx(), img.Name)
	s.wants(err, types.NotFound)
	for _, sent := range [][]string{lacking, nil} { // The second archive has only what is not there.
		loaded, err := s.Load(s.ctx(), s.archive(img, sent))
		s.must(err)
		if len(loaded) != 1 || loaded[0].Name != img.Name {
			s.Fatalf("loaded %v, want %s", loaded, img.Name)
		}
		lacking, err = s.Lacking(s.ctx(), img.Digests())
		s.must(err)
		layers, err := s.Layers(s.ctx(), img.Name)
		s.must(err)
		if len(lacking) > 0 || !slices.Equal(layers, img.Digests()) {
			s.Errorf("lacks %q, has %q; want all of %q", lacking, layers, img.Digests())
		}
	}
	c := s.container("block")
	c.Workdir = &types.Workdir{Image: img.Name, Target: "/workdir"}
	s.must(s.Start(s.ctx(), c))
	s.must(s.Start(s.ctx(), c))
	if exit := s.terminate(c); exit.Code != 0 {
		s.Errorf("exit %+v, want that of the program", exit)
	}
}

func testNoSuchWorkdir(s *suite) {
	c := s.container("exit", "5")
	c.Workdir = &types.Workdir{Image: s.image("that is not sent").Name, Target: "/workdir"}
	s.wants(s.Start(s.ctx(), c), types.NotFound)
	s.nothingLeft(c.ID)
	s.wants(s.Export(s.ctx(), c.Workdir.Image, nil, new(bytes.Buffer)), types.NotFound)
	c.Workdir = nil
	s.must(s.Start(s.ctx(), c))
	if exit := s.wait(c.ID); exit.Code != 5 {
		s.Errorf("exit code %d, want 5", exit.Code)
	}
}

func testWorkdirTravels(s *suite) {
	img := s.image("that travels from " + s.node)
	_, err := s.Load(s.ctx(), s.archive(img, img.Digests()))
	s.must(err)
	other := s.Open(s.T, s.node+"-other")
	var archive bytes.Buffer
	s.must(s.Export(s.ctx(), img.Name, img.Digests(), &archive))
	var less bytes.Buffer
	s.must(s.Export(s.ctx(), img.Name, nil, &less))
	if less.Len() >= archive.Len() {
		s.Errorf("without layers, the archive has %d bytes, and %d with them", less.Len(), archive.Len())
	}
	loaded, err := other.Load(s.ctx(), &archive)
	s.must(err)
	if len(loaded) != 1 || loaded[0].Name != img.Name {
		s.Errorf("loaded %v, want %s", loaded, img.Name)
	}
	layers, err := other.Layers(s.ctx(), img.Name)
	s.must(err)
	if !slices.Equal(layers, img.Digests()) {
		s.Errorf("has layers %q, want %q", layers, img.Digests())
	}
}

// testWorkdirWithoutLayers tests that an image without its layers does not seem to be there.
func testWorkdirWithoutLayers(s *suite) {
	img := s.image("that does not arrive at " + s.node)
	_, err := s.Load(s.ctx(), s.archive(img, nil))
	s.wants(err, types.Unavailable)
	_, err = s.Layers(s.ctx(), img.Name)
	s.wants(err, types.NotFound)
	_, err = s.Load(s.ctx(), s.archive(img, img.Digests()))
	s.must(err)
}
