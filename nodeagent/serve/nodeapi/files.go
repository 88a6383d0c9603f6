package nodeapi

import (
	"archive/tar"
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/nodeagent/serve/inroot"
	"github.com/escher-sched/escher/types"
)

// Stat describes a path in a container.
type Stat struct {
	Name string      `json:"name"`
	Size int64       `json:"size"`
	Mode fs.FileMode `json:"mode"`
	Time time.Time   `json:"time"`
}

// treeOf opens the files of an attempt's container. The caller must close them.
func (s *server) treeOf(r *http.Request) (*tree, string, error) {
	a, err := attemptOf(r)
	if err != nil {
		return nil, "", err
	}
	name := r.URL.Query().Get("path")
	if name == "" {
		return nil, "", types.Errorf(types.Invalid, "path: is missing: name a file or directory in the container")
	}
	container, err := s.Agent.ContainerOf(a.ns, a.id, a.number)
	if err != nil {
		return nil, "", err
	}
	root, err := s.Runtime.Root(r.Context(), container)
	if err != nil {
		return nil, "", err
	}
	t, err := openTree(root)
	if err != nil {
		return nil, "", err
	}
	// A directory named by a process id may have become another process's before the open.
	if again, err := s.Runtime.Root(r.Context(), container); err != nil || again != root {
		t.close()
		return nil, "", types.Errorf(types.Precondition, "open the files of the container: it has ended")
	}
	return t, name, nil
}

// getFiles answers with a path as a tar archive or, with stat, with its description.
func (s *server) getFiles(w http.ResponseWriter, r *http.Request) {
	err := func() error {
		follow, err := answer.Flag(r, "follow")
		if err != nil {
			return err
		}
		stat, err := answer.Flag(r, "stat")
		if err != nil {
			return err
		}
		t, name, err := s.treeOf(r)
		if err != nil {
			return err
		}
		defer t.close()
		f, err := t.look(name, follow)
		if err != nil {
			return err
		}
		defer f.Close()
		if stat {
			found, err := statOf(f, name)
			if err == nil {
				answer.JSON(w, http.StatusOK, found)
			}
			return err
		}
		return pack(w, f, name)
	}()
	if err != nil {
		s.refuse(w, r, err)
	}
}

// look opens a path with O_PATH.
func (t *tree) look(name string, follow bool) (*os.File, error) {
	flags := inroot.PathOnly
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	return t.open(name, flags)
}

func statOf(f *os.File, name string) (Stat, error) {
	info, err := f.Stat()
	if err != nil {
		return Stat{}, fileError("look at", name, err)
	}
	return Stat{Name: name, Size: info.Size(), Mode: info.Mode(), Time: info.ModTime()}, nil
}

// skippedTrailer has the number of omitted files, which are neither files nor directories nor
// links.
const skippedTrailer = "Escher-Skipped"

// pack answers with a tar archive. An error after the start breaks the answer off, so that it does
// not look complete.
func pack(w http.ResponseWriter, f *os.File, name string) error {
	info, err := f.Stat()
	if err != nil {
		return fileError("look at", name, err)
	}
	if err := packable(info); err != nil {
		return err
	}
	base, err := nameOf(name)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Trailer", skippedTrailer)
	out, end := steadily(w)
	defer end()
	p := &packer{tar: tar.NewWriter(out)}
	err = p.add(f, base, 0)
	if err == nil {
		err = p.tar.Close()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set(skippedTrailer, strconv.Itoa(p.skipped))
	return nil
}

// putFiles unpacks a tar archive into a directory.
func (s *server) putFiles(w http.ResponseWriter, r *http.Request) {
	err := func() error {
		keep, err := answer.Flag(r, "owners")
		if err != nil {
			return err
		}
		t, name, err := s.treeOf(r)
		if err != nil {
			return err
		}
		defer t.close()
		// The directory must exist.
		dir, err := t.open(name, inroot.PathOnly|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		dir.Close()
		u := &unpacker{tree: t, dir: name, owners: keep}
		body, end := steadyBody(w, r)
		defer end()
		if err := u.unpack(body); err != nil {
			drain(body)
			return err
		}
		answer.JSON(w, http.StatusOK, struct{}{})
		return nil
	}()
	if err != nil {
		s.refuse(w, r, err)
	}
}

func filesPath(ns, id string, attempt int, name string, query url.Values) string {
	query.Set("path", name)
	return request("files", ns, id, attempt, query)
}

// Stat returns the description of a path in the container of a running attempt; with follow, that
// of the target of a link. NotFound: it does not exist.
func (c *Client) Stat(ctx context.Context, ns, id string, attempt int, name string, follow bool) (Stat, error) {
	var found Stat
	query := url.Values{"stat": {"true"}, "follow": {strconv.FormatBool(follow)}}
	return found, c.get(ctx, filesPath(ns, id, attempt, name, query), &found)
}

// GetFiles returns a file or directory in the container of a running attempt as a tar archive. The
// name of its first entry is the last element of the path. After everything is read, skipped
// returns the number of omitted files, which are neither files nor directories nor links. The
// caller must close the archive.
func (c *Client) GetFiles(ctx context.Context, ns, id string, attempt int, name string, follow bool) (archive io.ReadCloser, skipped func() int, err error) {
	query := url.Values{"follow": {strconv.FormatBool(follow)}}
	res, err := c.do(ctx, http.MethodGet, filesPath(ns, id, attempt, name, query), nil)
	if err != nil {
		return nil, nil, err
	}
	return res.Body, func() int {
		n, _ := strconv.Atoi(res.Trailer.Get(skippedTrailer)) // Without a trailer, there are none.
		return n
	}, nil
}

// PutFiles unpacks a tar archive into a directory in the container of a running attempt. The files
// belong to root or, with owners, to the owners in the archive. Invalid: the archive has an entry
// that is neither a file nor a directory nor a link.
func (c *Client) PutFiles(ctx context.Context, ns, id string, attempt int, dir string, archive io.Reader, owners bool) error {
	query := url.Values{"owners": {strconv.FormatBool(owners)}}
	res, err := c.do(ctx, http.MethodPut, filesPath(ns, id, attempt, dir, query), archive)
	if err != nil {
		return err
	}
	return res.Body.Close()
}
