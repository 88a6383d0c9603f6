package cmdutil

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// Served reports whether the cluster is reached by the HTTP API of a server, without etcd.
func (f *Factory) Served() bool {
	place, err := f.Place()
	return err == nil && place.Server != ""
}

// Etcd returns the store of etcd itself. Precondition: the cluster is reached by the HTTP API of a server.
func (f *Factory) Etcd(ctx context.Context) (controlplane.Store, error) {
	place, err := f.Place()
	if err == nil && place.Server != "" {
		_, err = place.Etcd()
	}
	if err != nil {
		return nil, err
	}
	return f.Store(ctx)
}

// Path returns the path of the API below the namespace.
func (f *Factory) Path(parts ...string) string { return requests.Path(f.Namespace(), parts...) }

// NodePath returns the path of the API of a node, or below it.
func NodePath(node string, parts ...string) string {
	path := "/v1/nodes/" + url.PathEscape(node)
	for _, p := range parts {
		path += "/" + p
	}
	return path
}

// Pages reads all pages of a list of the API.
func Pages[T any](ctx context.Context, c *client.Client, path string, query url.Values) (all []T, err error) {
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", "1000")
	for {
		var page struct {
			Items []T
			Next  string
		}
		if err := c.Get(ctx, path, query, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("after", page.Next)
	}
}

// SendDocuments performs an operation on documents, such as plan, and reads its answer.
func (f *Factory) SendDocuments(ctx context.Context, operation string, text []byte, opts apply.Options, into any) error {
	c, err := f.API(ctx)
	if err != nil {
		return err
	}
	res, err := c.Send(ctx, http.MethodPost, f.DocumentsPath(operation, opts), "application/yaml", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		return types.Errorf(types.Internal, "read the answer to %s: %w", operation, err)
	}
	return nil
}

// DocumentsPath returns the path of an operation on documents.
func (f *Factory) DocumentsPath(operation string, opts apply.Options) string {
	query := url.Values{}
	if opts.Replace {
		query.Set("replace", "true")
	}
	if opts.If.Revision != 0 {
		query.Set("ifRevision", opts.If.String())
	}
	return f.Path(operation) + "?" + query.Encode()
}

// May returns nil if the caller has a right in a namespace; empty means the cluster. Denied: it has not.
func (f *Factory) May(ctx context.Context, n rights.Need, ns string) error {
	c, err := f.API(ctx)
	if err != nil {
		return err
	}
	var answer struct {
		Allowed bool
		Reason  string
	}
	query := url.Values{"verb": {string(n.Verb)}, "kind": {string(n.Kind)}}
	if ns != "" {
		query.Set("namespace", ns)
	}
	err = c.Get(ctx, "/v1/can-i", query, &answer)
	if err == nil && !answer.Allowed {
		err = types.Errorf(types.Denied, "%s", answer.Reason)
	}
	return err
}

// Apply applies one document.
func (f *Factory) Apply(ctx context.Context, doc any) error {
	text, err := json.Marshal(doc)
	if err != nil {
		return types.Errorf(types.Internal, "write a document: %w", err)
	}
	var done struct{}
	return f.SendDocuments(ctx, "apply", text, apply.Options{}, &done)
}

// Withdraw ends a shared policy: see esl.Client.Withdraw.
func (f *Factory) Withdraw(ctx context.Context, id string, force bool) error {
	return f.Change(ctx, http.MethodDelete, f.Path("policies", id)+"?force="+strconv.FormatBool(force), nil, nil)
}

// Unreserve gives up a reservation: see controlplane.Client.Unreserve.
func (f *Factory) Unreserve(ctx context.Context, id string) error {
	return f.Change(ctx, http.MethodDelete, f.Path("reservations", id), nil, nil)
}

// RemoveResource removes a resource from a place.
func (f *Factory) RemoveResource(ctx context.Context, name string, where manifest.Where) error {
	return f.Change(ctx, http.MethodPost, f.Path("resources"), requests.Set{Name: name, Capacity: "0", Where: &where}, nil)
}

// Change performs an operation of the HTTP API, and reads its answer into a value; nil means that it is not
// needed.
func (f *Factory) Change(ctx context.Context, method, path string, body, into any) error {
	c, err := f.API(ctx)
	if err != nil {
		return err
	}
	return c.Do(ctx, method, path, body, into)
}
