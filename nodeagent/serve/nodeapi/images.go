package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/distribution/reference"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// pullEvery is the interval of progress messages of a pull.
const pullEvery = 200 * time.Millisecond

// maxPull limits the body of a pull request.
const maxPull = 8 << 10

// Image is an image of a node.
type Image struct {
	Name    string    `json:"name"`
	Digest  string    `json:"digest"`
	Bytes   int64     `json:"bytes"`
	Created time.Time `json:"created"`
	// Entrypoint is the program that gets the command of a task as arguments.
	Entrypoint []string `json:"entrypoint,omitempty"`
}

// Pull is a step of a pull: its progress or, at the end, the pulled image.
type Pull struct {
	Done      int64  `json:"done,omitempty"`
	Total     int64  `json:"total,omitempty"`
	Unpacking bool   `json:"unpacking,omitempty"`
	Trouble   string `json:"trouble,omitempty"`
	Image     *Image `json:"image,omitempty"`
}

// pullRequest is the body of a pull request.
type pullRequest struct {
	Image string `json:"image"`
}

func imagesOf(images []nodeagent.Image) []Image {
	all := make([]Image, len(images))
	for i, x := range images {
		all[i] = Image(x)
	}
	return all
}

// listImages lists the images of the node.
func (s *server) listImages(w http.ResponseWriter, r *http.Request) {
	images, err := s.Runtime.Images(r.Context())
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	answer.JSON(w, http.StatusOK, imagesOf(images))
}

// loadImages loads an archive of images while it arrives.
func (s *server) loadImages(w http.ResponseWriter, r *http.Request) {
	body, end := steadyBody(w, r)
	defer end()
	images, err := s.Runtime.Load(r.Context(), body)
	if err != nil {
		drain(body)
		s.refuse(w, r, err)
		return
	}
	answer.JSON(w, http.StatusOK, imagesOf(images))
}

// pullImage pulls an image. The answer is a line of JSON per step; the last one has the image or an
// error.
func (s *server) pullImage(w http.ResponseWriter, r *http.Request) {
	var body pullRequest
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPull))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil {
		s.refuse(w, r, types.Errorf(types.Invalid, "body: %w: send {\"image\": REFERENCE}", err))
		return
	}
	named, err := reference.ParseDockerRef(body.Image)
	if err != nil {
		s.refuse(w, r, types.Errorf(types.Invalid, "image: %q: %w: write it like docker.io/library/busybox:1.36", body.Image, err))
		return
	}
	lines := newLines(w)
	pulled := make(chan error, 1)
	var image nodeagent.Image
	go func() {
		var err error
		image, err = s.Runtime.Pull(r.Context(), body.Image)
		pulled <- err
	}()
	tick := time.NewTicker(pullEvery)
	defer tick.Stop()
	var last Pull
	for {
		select {
		case err := <-pulled:
			if err != nil {
				lines.send(answer.ProblemOf(s.said(err)))
				return
			}
			lines.send(Pull{Image: (*Image)(&image)})
			return
		case <-tick.C:
			if now := s.pulling(named.String()); now != last {
				last = now
				lines.send(now)
			}
		}
	}
}

// tellPull answers with the progress of an image's pull; it is empty without a pull.
func (s *server) tellPull(w http.ResponseWriter, r *http.Request) {
	image := r.URL.Query().Get("image")
	named, err := reference.ParseDockerRef(image)
	if err != nil {
		s.refuse(w, r, types.Errorf(types.Invalid, "image: %q: %w: write it like docker.io/library/busybox:1.36", image, err))
		return
	}
	answer.JSON(w, http.StatusOK, s.pulling(named.String()))
}

// pulling returns the progress of an image's pull.
func (s *server) pulling(name string) Pull {
	for _, p := range s.Runtime.Pulling() {
		if p.Name == name {
			return Pull{Done: p.Done, Total: p.Total, Unpacking: p.Unpacking, Trouble: p.Trouble}
		}
	}
	return Pull{}
}

// lines answers with lines of JSON, and flushes each.
type lines struct {
	enc *json.Encoder
	c   *http.ResponseController
}

func newLines(w http.ResponseWriter) lines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	l := lines{json.NewEncoder(w), http.NewResponseController(w)}
	_ = l.c.Flush() // The client may be gone: then the request is canceled.
	return l
}

// send sends one line. If the client is gone, the request is canceled.
func (l lines) send(v any) {
	_ = l.enc.Encode(v)
	_ = l.c.Flush()
}

// Images returns the images of the node, sorted by name.
func (c *Client) Images(ctx context.Context) ([]Image, error) {
	var all []Image
	return all, c.get(ctx, "/v1/images", &all)
}

// Load sends an archive of images to the node, and returns its images. Invalid: it is not such an
// archive.
func (c *Client) Load(ctx context.Context, archive io.Reader) ([]Image, error) {
	res, err := c.do(ctx, http.MethodPost, "/v1/images", archive)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var all []Image
	return all, c.decode(res, &all)
}

// Pulling returns the progress of the node's pull of an image for a task. Total is 0 if there is no
// pull, or nothing has arrived yet.
func (c *Client) Pulling(ctx context.Context, ref string) (Pull, error) {
	var p Pull
	return p, c.get(ctx, "/v1/images/pull?"+url.Values{"image": {ref}}.Encode(), &p)
}

// Pull makes the node pull an image, and calls progress with each step. Errors have the classes of
// nodeagent.Images.
func (c *Client) Pull(ctx context.Context, ref string, progress func(Pull)) (Image, error) {
	res, err := c.doJSON(ctx, http.MethodPost, "/v1/images/pull", pullRequest{ref})
	if err != nil {
		return Image{}, err
	}
	defer res.Body.Close()
	var image Image
	err = c.lines(res, func(text []byte) error {
		var p Pull
		if err := json.Unmarshal(text, &p); err != nil {
			return c.garbled(err)
		}
		if p.Image != nil {
			image = *p.Image
			return errLast
		}
		progress(p)
		return nil
	})
	if errors.Is(err, errLast) {
		return image, nil
	}
	if err == nil {
		err = c.broken(io.ErrUnexpectedEOF)
	}
	return Image{}, err
}
