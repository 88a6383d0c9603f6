package containerd_test

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/escher-sched/escher/nodeagent/runtimetest"
	"github.com/escher-sched/escher/types"
)

// serveImages runs a registry on the loopback with the test program in it, and
// returns its address.
func (b *bench) serveImages() string {
	b.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	b.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	raw := b.raw()
	img, err := raw.GetImage(b.Context(), runtimetest.Image)
	b.must(err)
	b.must(raw.Push(b.Context(), host+"/test/program:v1", img.Target()))
	return host
}

func testPull(b *bench) {
	host := b.serveImages()
	c := b.container("print", "pulled")
	for ref, class := range map[string]types.Class{
		host + "/test/program:v2":      types.NotFound,
		host + "/test/none:v1":         types.NotFound,
		"127.0.0.1:1/test/program:v1":  types.Unavailable,
		"Not A Reference":              types.Invalid,
		"escher.local/test/program:v1": types.NotFound,
	} {
		c.Image = ref
		if err := b.Start(b.Context(), c); !types.Is(err, class) {
			b.Errorf("image %s: %v, want class %v", ref, err, class)
		}
	}
	c.Image = host + "/test/program:v1"
	if got := b.output(c, 0); !strings.Contains(got, "pulled") {
		b.Errorf("log is %q", got)
	}
}
