package nodeapi

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/opencontainers/go-digest"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

const (
	// maxLayers limits the layers of one request: no image of a workdir has more.
	maxLayers = 64
	// maxLacking limits the body of a request about layers.
	maxLacking = 16 << 10
	// askTimeout limits the wait for another node that may have an image, and askAtOnce how many
	// nodes are asked concurrently.
	askTimeout = 5 * time.Second
	askAtOnce  = 16
)

// layersOf has layers of an image.
type layersOf struct {
	Layers []string `json:"layers"`
}

func (l layersOf) validate() error {
	if len(l.Layers) > maxLayers {
		return types.Errorf(types.Invalid, "layers: %d is too many: give at most %d", len(l.Layers), maxLayers)
	}
	for _, x := range l.Layers {
		if err := digest.Digest(x).Validate(); err != nil {
			return types.Errorf(types.Invalid, "layers: %.100q: %w: write it like sha256:…", x, err)
		}
	}
	return nil
}

// lackingLayers answers with those of the layers that the node lacks.
func (s *server) lackingLayers(w http.ResponseWriter, r *http.Request) {
	var body layersOf
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLacking))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil {
		s.refuse(w, r, types.Errorf(types.Invalid, "body: %w: send {\"layers\": [DIGEST…]}", err))
		return
	}
	err := body.validate()
	if err == nil {
		body.Layers, err = s.Runtime.Lacking(r.Context(), body.Layers)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	answer.JSON(w, http.StatusOK, body)
}

// workdirOf returns the image in a request.
func workdirOf(r *http.Request) (string, error) {
	image := r.URL.Query().Get("image")
	if !types.IsWorkdirImage(image) {
		return "", types.Errorf(types.Invalid, "image: %.100q is not the image of a workdir: give %s@sha256:…", image, types.WorkdirRepository)
	}
	return image, nil
}

// layersOfWorkdir answers with the layers of a workdir.
func (s *server) layersOfWorkdir(w http.ResponseWriter, r *http.Request) {
	image, err := workdirOf(r)
	var all layersOf
	if err == nil {
		all.Layers, err = s.Runtime.Layers(r.Context(), image)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	answer.JSON(w, http.StatusOK, all)
}

// exportWorkdir answers with an archive of a workdir, with the layers in the request. An error after
// the start breaks the answer off.
func (s *server) exportWorkdir(w http.ResponseWriter, r *http.Request) {
	image, err := workdirOf(r)
	wanted := layersOf{r.URL.Query()["layer"]}
	if err == nil {
		err = wanted.validate()
	}
	if err == nil {
		_, err = s.Runtime.Layers(r.Context(), image)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-tar")
	out, end := steadily(w)
	defer end()
	if err := s.Runtime.Export(r.Context(), image, wanted.Layers, out); err != nil {
		s.Log.Warn("workdir not exported", zap.String("image", image), zap.Error(err))
		panic(http.ErrAbortHandler)
	}
}

// Lacking returns those of the layers of a workdir that the node lacks.
func (c *Client) Lacking(ctx context.Context, layers []string) ([]string, error) {
	res, err := c.doJSON(ctx, http.MethodPost, "/v1/workdirs/lacking", layersOf{layers})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var lacking layersOf
	return lacking.Layers, c.decode(res, &lacking)
}

// Layers returns the layers of the image of a workdir. NotFound: the node does not have it.
func (c *Client) Layers(ctx context.Context, image string) ([]string, error) {
	var all layersOf
	return all.Layers, c.get(ctx, "/v1/workdirs/layers?"+url.Values{"image": {image}}.Encode(), &all)
}

// Export returns an archive of the image of a workdir, with those of its layers. The caller must
// close it. NotFound: the node does not have the image.
func (c *Client) Export(ctx context.Context, image string, layers []string) (io.ReadCloser, error) {
	res, err := c.do(ctx, http.MethodGet, "/v1/workdirs?"+url.Values{"image": {image}, "layer": layers}.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// FetchWorkdir brings the image of a workdir to the runtime of node to, from another node. It needs
// no token: the digest is as secret. NotFound: no node that can be reached has it. Unavailable: some
// did not answer.
func (d Dialer) FetchWorkdir(ctx context.Context, to string, runtime nodeagent.Images, image string) error {
	alive, _, err := controlplane.ListAll(ctx, d.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Alive), KeysOnly: true})
	if err != nil {
		return err
	}
	var nodes []string
	for _, kv := range alive {
		if k, ok := controlplane.Parse(kv.Key); ok && k.Node != to {
			nodes = append(nodes, k.Node)
		}
	}
	// Nodes that fetch at the same time spread over those that have it.
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	c, layers, err := d.withWorkdir(ctx, image, nodes)
	if err != nil {
		return err
	}
	defer c.Close()
	lacking, err := runtime.Lacking(ctx, layers)
	if err != nil {
		return err
	}
	archive, err := c.Export(ctx, image, lacking)
	if err != nil {
		return err
	}
	defer archive.Close()
	if _, err := runtime.Load(ctx, archive); err != nil {
		return types.Errorf(types.Unavailable, "fetch workdir %s from node %s: %w", image, c.Node(), err)
	}
	return nil
}

// withWorkdir returns the client of the first of the nodes that says it has an image, and the
// layers. The caller must close the client.
func (d Dialer) withWorkdir(ctx context.Context, image string, nodes []string) (*Client, []string, error) {
	type found struct {
		client *Client
		layers []string
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	first, failed := make(chan found, 1), make(chan error, len(nodes))
	var group errgroup.Group
	group.SetLimit(askAtOnce)
	for _, node := range nodes {
		group.Go(func() error {
			c, layers, err := d.ask(asking, image, node)
			if err != nil {
				failed <- err
				return nil
			}
			stop()
			select {
			case first <- found{c, layers}:
			default:
				c.Close()
			}
			return nil
		})
	}
	_ = group.Wait() // No function returns an error.
	close(first)
	if f, ok := <-first; ok {
		return f.client, f.layers, nil
	}
	close(failed)
	for err := range failed {
		if types.Is(err, types.Unavailable) {
			return nil, nil, types.Errorf(types.Unavailable, "fetch workdir %s: no node that answers has it: %w", image, err)
		}
	}
	return nil, nil, types.Errorf(types.NotFound, "fetch workdir %s: no node has it", image)
}

// ask returns the client of a node, and the layers of an image there.
func (d Dialer) ask(ctx context.Context, image, node string) (*Client, []string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := d.withoutToken(ctx, node)
	if err != nil {
		return nil, nil, err
	}
	layers, err := c.Layers(ctx, image)
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, layers, nil
}

// withoutToken returns the client of a node for requests that need no token of it.
func (d Dialer) withoutToken(ctx context.Context, node string) (*Client, error) {
	if d.Server != nil {
		return d.Server.Node(node), nil
	}
	var n types.Node
	if _, err := read(ctx, d.Store, controlplane.NodeKey(node), &n); err != nil {
		return nil, err
	}
	return d.client(node, n.Address, "")
}
