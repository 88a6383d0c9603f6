package rest

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
	"github.com/escher-sched/escher/types/rights"
)

// OnNode is an input that names a node.
type OnNode struct {
	Node string `path:"node" doc:"the name of the node"`
}

// NodeBody is an input with a body in JSON for a node.
type NodeBody struct {
	OnNode
	RawBody []byte `contentType:"application/json"`
}

func (b *NodeBody) raw() []byte { return b.RawBody }

// OnImage is an input that names an image of a node.
type OnImage struct {
	OnNode
	Image string `query:"image" required:"true" maxLength:"1024" doc:"the reference of the image"`
}

// list is an answer with all objects.
type list[T any] struct {
	Items []T `json:"items" nullable:"false"`
}

func listOf[T any](all []T, err error) (list[T], error) {
	return list[T]{append([]T{}, all...)}, err
}

// pulled is the body of pullImage.
type pulled struct {
	Image string `json:"image" doc:"the reference of the image, such as docker.io/library/busybox:1.36"`
}

// layers has layers of the image of a sent directory.
type layers struct {
	Layers []string `json:"layers" nullable:"false" maxItems:"64" doc:"their digests"`
}

// on calls do with the client of a node.
func on[T any](ctx context.Context, s *service, node string, do func(*nodeapi.Client) (T, error)) (out T, err error) {
	err = s.nodes().On(ctx, node, func(c *nodeapi.Client) (err error) {
		out, err = do(c)
		return err
	})
	return out, err
}

// images registers the operations on the images of nodes, and on what nodes measure.
func (s *service) images() {
	const path, tag = "/v1/nodes/{node}/", "images"
	add(s, operation{http.MethodGet, path + "images", "listImages", "List the images of a node", tag},
		func(ctx context.Context, in *OnNode) (list[nodeapi.Image], error) {
			return on(ctx, s, in.Node, func(c *nodeapi.Client) (list[nodeapi.Image], error) { return listOf(c.Images(ctx)) })
		})
	s.load(operation{http.MethodPost, path + "images", "loadImages", "Load an archive of images on a node, as docker save writes it", tag})
	s.pull(operation{http.MethodPost, path + "images/pull", "pullImage", "Pull an image on a node; progress as server-sent events", tag})
	add(s, operation{http.MethodGet, path + "images/pull", "getPull", "Show how far a node is with the pull of an image", tag},
		func(ctx context.Context, in *OnImage) (nodeapi.Pull, error) {
			return on(ctx, s, in.Node, func(c *nodeapi.Client) (nodeapi.Pull, error) { return c.Pulling(ctx, in.Image) })
		})
	s.workdirs(path+"workdirs", tag)
	add(s, operation{http.MethodGet, path + "usage", "getNodeUsage", "Measure what a node uses", "cluster"},
		func(ctx context.Context, in *struct {
			OnNode
			OnUsage
		},
		) (measured.Node, error) {
			from, err := nodeapi.Since(in.Since, s.cfg.Now())
			if err != nil {
				return measured.Node{}, err
			}
			return on(ctx, s, in.Node, func(c *nodeapi.Client) (measured.Node, error) { return c.NodeUsage(ctx, from) })
		})
	add(s, operation{http.MethodGet, path + "usage/tasks", "listNodeUsage", "Measure what each running task of a node uses", "cluster"},
		func(ctx context.Context, in *struct {
			OnNode
			OnUsage
		},
		) (list[measured.Task], error) {
			from, err := nodeapi.Since(in.Since, s.cfg.Now())
			if err != nil {
				return list[measured.Task]{}, err
			}
			return on(ctx, s, in.Node, func(c *nodeapi.Client) (list[measured.Task], error) {
				all, err := c.Usage(ctx, from)
				return listOf(readable(ctx, all), err)
			})
		})
}

// readable returns the tasks of namespaces whose tasks the caller may read.
func readable(ctx context.Context, all []measured.Task) []measured.Task {
	caller, may := access.From(ctx), make(map[string]bool)
	return slices.DeleteFunc(all, func(t measured.Task) bool {
		if _, asked := may[t.Namespace]; !asked {
			may[t.Namespace] = caller.May(rights.Need{Verb: rights.Read, Kind: rights.Tasks}, t.Namespace) == nil
		}
		return !may[t.Namespace]
	})
}

// load registers the operation that loads an archive while it arrives.
func (s *service) load(op operation) {
	described := takes(s.described(op))
	described.Responses["200"] = &huma.Response{Description: "the images of the archive", Content: map[string]*huma.MediaType{
		"application/json": {Schema: s.schema(reflect.TypeFor[list[nodeapi.Image]]())},
	}}
	huma.Register(s.api, described, func(_ context.Context, in *OnNode) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			to := s.told(hctx)
			out, err := on(hctx.Context(), s, in.Node, func(c *nodeapi.Client) (list[nodeapi.Image], error) {
				return listOf(c.Load(hctx.Context(), io.NopCloser(to.r.Body)))
			})
			if err != nil {
				nodeapi.Drain(to.w, to.r)
			}
			to.last("", out, err)
		}}, nil
	})
}

// pull registers the operation that pulls an image.
func (s *service) pull(op operation) {
	long(s, body[pulled](s, op), func(ctx context.Context, in *NodeBody, tell func(nodeapi.Pull)) (nodeapi.Image, error) {
		b, err := tasksocket.Decode[pulled](in.RawBody, "/openapi.json")
		if err == nil && b.Image == "" {
			err = types.Errorf(types.Invalid, "image: is missing: name one, such as docker.io/library/busybox:1.36")
		}
		if err != nil {
			return nodeapi.Image{}, err
		}
		return on(ctx, s, in.Node, func(c *nodeapi.Client) (nodeapi.Image, error) { return c.Pull(ctx, b.Image, tell) })
	})
}

// workdirs registers the operations on the images of sent directories.
func (s *service) workdirs(path, tag string) {
	post(s, operation{http.MethodPost, path + "/lacking", "listLackingLayers", "List those layers of a sent directory that a node lacks", tag},
		func(ctx context.Context, in *NodeBody, b layers) (layers, error) {
			return on(ctx, s, in.Node, func(c *nodeapi.Client) (layers, error) {
				all, err := c.Lacking(ctx, b.Layers)
				return layers{append([]string{}, all...)}, err
			})
		})
	add(s, operation{http.MethodGet, path + "/layers", "listLayers", "List the layers of a sent directory on a node", tag},
		func(ctx context.Context, in *OnImage) (layers, error) {
			return on(ctx, s, in.Node, func(c *nodeapi.Client) (layers, error) {
				all, err := c.Layers(ctx, in.Image)
				return layers{append([]string{}, all...)}, err
			})
		})
	type export struct {
		OnImage
		Layer []string `query:"layer,explode" maxItems:"64" doc:"the layers to read: repeat it for several"`
	}
	op := answers(s.described(operation{http.MethodGet, path, "exportWorkdir", "Read a sent directory of a node, as an archive for loadImages", tag}), "the archive", "application/x-tar")
	huma.Register(s.api, op, func(ctx context.Context, in *export) (*huma.StreamResponse, error) {
		c, err := s.nodes().Dial(ctx, in.Node)
		if err != nil {
			return nil, s.failed(ctx, op.Path, err)
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			defer c.Close()
			s.pass(hctx, c, "/v1/workdirs")
		}}, nil
	})
}
