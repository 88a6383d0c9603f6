package containerd_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing/iotest"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/types"
)

func loadTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"LoadOfDocker":         testLoadDocker,
		"LoadOfOCI":            testLoadOCI,
		"LoadOfNoArchive":      testLoadGarbage,
		"LoadAfterHalfOfOne":   testLoadAfterHalf,
		"LoadOfOtherPlatform":  testLoadOtherPlatform,
		"LoadedAgain":          testLoadedAgain,
		"StopSignal":           testStopSignal,
		"StopSignalOfTheImage": testStopSignalOfImage,
		"NoSuchSignal":         testNoSuchSignal,
	}
}

// docker returns an archive like one of docker save.
func (b *bench) docker(images map[string]v1.Image) []byte {
	b.Helper()
	tagged := make(map[name.Tag]v1.Image)
	for ref, img := range images {
		tag, err := name.NewTag(ref)
		b.must(err)
		tagged[tag] = img
	}
	var archive bytes.Buffer
	b.must(tarball.MultiWrite(tagged, &archive))
	return archive.Bytes()
}

func (b *bench) load(archive []byte) []nodeagent.Image {
	b.Helper()
	all, err := b.Load(b.ctx(), bytes.NewReader(archive))
	b.must(err)
	return all
}

func testLoadDocker(b *bench) {
	first, _ := b.newImage()
	second, _ := b.newImage()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write(b.docker(map[string]v1.Image{"escher.local/first:v1": first, "second:v2": second}))
	b.must(errors.Join(err, z.Close()))
	names := make(map[string]bool)
	for _, img := range b.load(zipped.Bytes()) {
		names[img.Name] = img.Bytes > layerBytes && strings.HasPrefix(img.Digest, "sha256:")
	}
	if len(names) != 2 || !names["escher.local/first:v1"] || !names["docker.io/library/second:v2"] {
		b.Errorf("loaded %v, want both with size and digest", names)
	}
	listed := make(map[string]int)
	all, err := b.Images(b.ctx())
	b.must(err)
	for _, img := range all {
		listed[img.Name]++
	}
	if listed["escher.local/first:v1"] != 1 || listed["docker.io/library/second:v2"] != 1 {
		b.Errorf("listed %v, want both, once", listed)
	}
	for listed := range listed {
		if strings.Contains(listed, "first@") {
			b.Errorf("%s is listed by its digest, too", listed)
		}
	}
	c := b.container("exit", "4")
	c.Image = "second:v2"
	b.output(c, 4)
}

// testLoadOCI loads an image without a name, and one with only a tag.
func testLoadOCI(b *bench) {
	for _, want := range []struct {
		annotations map[string]string
		name        string
	}{
		{nil, "escher.local/loaded:"},
		{map[string]string{"org.opencontainers.image.ref.name": "v7"}, "escher.local/loaded:v7"},
		{map[string]string{"org.opencontainers.image.ref.name": "example.org/a/b:v1"}, "example.org/a/b:v1"},
	} {
		img, _ := b.newImage()
		all := b.load(b.oci(img, want.annotations))
		if len(all) != 1 || !strings.HasPrefix(all[0].Name, want.name) || all[0].Digest != digestOf(b, img) {
			b.Fatalf("loaded %+v, want %s…", all, want.name)
		}
		c := b.container("exit", "5")
		c.Image = all[0].Name
		b.output(c, 5)
	}
}

// oci returns an archive of an OCI layout.
func (b *bench) oci(img v1.Image, annotations map[string]string) []byte {
	b.Helper()
	dir := b.TempDir()
	written, err := layout.Write(dir, empty.Index)
	b.must(err)
	b.must(written.AppendImage(img, layout.WithAnnotations(annotations)))
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	b.must(w.AddFS(os.DirFS(dir)))
	b.must(w.Close())
	return archive.Bytes()
}

func testLoadGarbage(b *bench) {
	img, _ := b.newImage()
	whole := b.docker(map[string]v1.Image{"escher.local/garbage:v1": img})
	for name, archive := range map[string]io.Reader{
		"nothing":     strings.NewReader(""),
		"text":        strings.NewReader("this is no archive\n"),
		"random":      strings.NewReader(strings.Repeat("this is no archive\n", 1000)),
		"no image":    bytes.NewReader(b.noImage()),
		"half of one": bytes.NewReader(whole[:len(whole)/2]),
	} {
		if _, err := b.Load(b.ctx(), archive); !types.Is(err, types.Invalid) {
			b.Errorf("%s: %v, want Invalid", name, err)
		}
	}
	cut := io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), iotest.ErrReader(fs.ErrClosed))
	_, err := b.Load(b.ctx(), cut)
	b.wants(err, types.Unavailable)
}

func (b *bench) noImage() []byte {
	b.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	b.must(w.WriteHeader(&tar.Header{Name: "file", Mode: 0o600}))
	b.must(w.Close())
	return archive.Bytes()
}

// testLoadAfterHalf loads an archive after half of another one, whose content has the same names.
func testLoadAfterHalf(b *bench) {
	for range 3 {
		broken, _ := b.newImage()
		half := b.oci(broken, nil)
		_, err := b.Load(b.ctx(), bytes.NewReader(half[:len(half)*3/4]))
		b.wants(err, types.Invalid)
		img, _ := b.newImage()
		b.load(b.oci(img, nil))
	}
}

func testLoadOtherPlatform(b *bench) {
	img, _ := b.newImage(func(conf *v1.ConfigFile) { conf.Architecture = "s390x" })
	_, err := b.Load(b.ctx(), bytes.NewReader(b.docker(map[string]v1.Image{"escher.local/other:v1": img})))
	b.wants(err, types.Invalid)
}

// testLoadedAgain gives a name to another image; attempts bound to the first one continue with it.
func testLoadedAgain(b *bench) {
	const ref = "escher.local/again:v1"
	started := make(map[string]string)
	for _, value := range []string{"TEST=1", "TEST=2"} {
		img, _ := b.newImage(func(conf *v1.ConfigFile) { conf.Config.Env = []string{value} })
		b.load(b.docker(map[string]v1.Image{ref: img}))
		c := b.container("exit", "0")
		c.Image = ref
		made, err := b.Runtime.Start(b.ctx(), c)
		b.must(err)
		started[value] = made.Image
	}
	for value, pinned := range started {
		c := b.container("id")
		c.Image = pinned
		if got := b.output(c, 0); !strings.HasSuffix(got, value+"\n") {
			b.Errorf("%s says %q, want %s", pinned, got, value)
		}
	}
}

func testStopSignal(b *bench) {
	c := b.container("usr1")
	c.StopSignal = "SIGUSR1"
	b.stops(c)
	c = b.container("block")
	b.stops(c)
}

// stops fails the test if the container does not end at its stop signal.
func (b *bench) stops(c nodeagent.Container) {
	b.Helper()
	b.start(c)
	runtimetest.AwaitLog(b.T, c.LogPath, "ready\n")
	b.must(b.Signal(b.ctx(), c.ID, nodeagent.StopSignal))
	if exit := b.wait(c.ID); exit.Code != 0 {
		b.Errorf("exit %+v, want it to have understood", exit)
	}
}

func testStopSignalOfImage(b *bench) {
	for signal, verb := range map[string]string{"SIGUSR1": "usr1", "10": "usr1", "SIGNONE": "block"} {
		img, _ := b.newImage(func(conf *v1.ConfigFile) { conf.Config.StopSignal = signal })
		b.load(b.docker(map[string]v1.Image{"escher.local/signal:v1": img}))
		c := b.container(verb)
		c.Image = "escher.local/signal:v1"
		b.stops(c)
	}
	c := b.container("block")
	c.Image, c.StopSignal = "escher.local/signal:v1", "SIGTERM"
	b.stops(c)
}

func testNoSuchSignal(b *bench) {
	c := b.container("exit", "0")
	c.StopSignal = "SIGNONE"
	b.wants(b.Start(b.ctx(), c), types.Invalid)
	b.must(b.Remove(b.ctx(), c.ID))
	_, err := b.find(b.ctx(), c.ID)
	b.wants(err, types.NotFound)
	b.wants(b.Signal(b.ctx(), c.ID, nodeagent.StopSignal), types.NotFound)
}
