package containerd_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/escher-sched/escher/nodeagent/runtime/image"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
)

// layerBytes is the size of the layer that makes an image unique.
const layerBytes = 1 << 20

// shop is a registry on loopback. It counts requests, and can be set to misbehave.
type shop struct {
	*bench
	host  string
	close func()

	mu sync.Mutex
	// asked counts requests by method and path, ranges are the offsets of requested content.
	asked  map[string]int
	ranges []string
	// first sees each request before the registry, and reports whether it answered.
	first func(w http.ResponseWriter, r *http.Request) bool
}

func (b *bench) shop() *shop {
	b.Helper()
	s := &shop{bench: b, asked: make(map[string]int)}
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		first := s.first
		if from := r.Header.Get("Range"); from != "" {
			s.ranges = append(s.ranges, from)
		}
		s.asked[r.Method+" "+r.URL.Path]++
		s.mu.Unlock()
		switch {
		case first != nil && first(w, r):
		case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/"):
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content(store, r)))
		default:
			store.ServeHTTP(w, r)
		}
	}))
	b.Cleanup(server.Close)
	s.host, s.close = strings.TrimPrefix(server.URL, "http://"), server.Close
	return s
}

// content returns the registry's whole content of a path: the registry itself cannot resume.
func content(store http.Handler, r *http.Request) []byte {
	whole := r.Clone(r.Context())
	whole.Header.Del("Range")
	answer := httptest.NewRecorder()
	store.ServeHTTP(answer, whole)
	return answer.Body.Bytes()
}

// behave sets a handler to run before the registry; nil means none.
func (s *shop) behave(first func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = first
}

func (s *shop) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.asked)
}

// product is an image of the test program in a registry.
type product struct {
	ref, digest string
	// layer is the path of content that no other image has.
	layer   string
	content []byte
}

// stock puts a new image into the registry.
func (s *shop) stock(repository string, change ...func(*v1.ConfigFile)) product {
	s.Helper()
	img, layer := s.newImage(change...)
	digest, err := layer.Digest()
	s.must(err)
	body, err := layer.Compressed()
	s.must(err)
	content, err := io.ReadAll(body)
	s.must(err)
	ref := s.host + "/" + repository
	s.push(ref, img)
	return product{
		ref: ref, digest: digestOf(s.bench, img), content: content,
		layer: "/v2/" + strings.Split(repository, ":")[0] + "/blobs/" + digest.String(),
	}
}

func (s *shop) push(ref string, img v1.Image) {
	s.Helper()
	tag, err := name.NewTag(ref)
	s.must(err)
	s.must(remote.Write(tag, img, remote.WithContext(s.Context())))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = make(map[string]int)
}

func digestOf(b *bench, img v1.Image) string {
	b.Helper()
	digest, err := img.Digest()
	b.must(err)
	return digest.String()
}

// newImage returns a unique image of the test program, and the layer that makes it unique.
func (b *bench) newImage(change ...func(*v1.ConfigFile)) (v1.Image, v1.Layer) {
	b.Helper()
	img, err := image.Build(image.Spec{Name: runtimetest.Image, Files: map[string]string{runtimetest.Program: b.host.Program}})
	b.must(err)
	layer, err := random.Layer(layerBytes, types.DockerLayer)
	b.must(err)
	img, err = mutate.AppendLayers(img, layer)
	b.must(err)
	conf, err := img.ConfigFile()
	b.must(err)
	conf = conf.DeepCopy()
	for _, f := range change {
		f(conf)
	}
	img, err = mutate.ConfigFile(img, conf)
	b.must(err)
	return img, layer
}

// only passes requests for one path to f, and others to the registry.
func only(path string, f http.HandlerFunc) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || r.URL.Path != path {
			return false
		}
		f(w, r)
		return true
	}
}

// half answers with the first half of the layer, and then calls after.
func (p product) half(after func(ctx context.Context)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(p.content)))
		_, _ = w.Write(p.content[:len(p.content)/2]) // the client may have hung up
		_ = http.NewResponseController(w).Flush()
		after(r.Context())
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}
