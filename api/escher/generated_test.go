package escher_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/api/rest/restclient"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// overHTTP returns a client that sends its requests by the generated client of the HTTP API.
func overHTTP(t *testing.T, store controlplane.Store) *escher.Client {
	t.Helper()
	server := httptest.NewServer(rest.Handler(rest.Config{Store: store, Now: time.Now}))
	t.Cleanup(server.Close)
	api, err := restclient.NewClientWithResponses(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return escher.ByRequests("d", generated{api, "d"})
}

// generated sends the requests of a program by the generated client.
type generated struct {
	api *restclient.ClientWithResponses
	ns  string
}

// converted returns a value as another type with the same JSON.
func converted[T any](v any) (out T, err error) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

// answer is an answer of the generated client.
type answer[T any] interface {
	GetJSON200() *T
	GetApplicationproblemJSONDefault() *restclient.Problem
}

// answered returns an answer as another type, or its problem as an error.
func answered[T any, A answer[J], J any](res A, err error) (out T, _ error) {
	if err != nil {
		return out, types.Errorf(types.Unavailable, "%w", err)
	}
	if err := failed(res.GetApplicationproblemJSONDefault()); err != nil {
		return out, err
	}
	return converted[T](res.GetJSON200())
}

// failed returns a problem as an error of its class; nil for nil.
func failed(p *restclient.Problem) error {
	if p == nil {
		return nil
	}
	for _, class := range types.Classes() {
		if class.String() == string(p.Class) {
			return types.Errorf(class, "%s", p.Detail)
		}
	}
	return types.Errorf(types.Internal, "%+v", p)
}

func (g generated) State(ctx context.Context, reads bool) (out requests.State, err error) {
	return answered[requests.State](g.api.GetStateWithResponse(ctx, g.ns, &restclient.GetStateParams{Reads: &reads}))
}

func (g generated) Set(ctx context.Context, s requests.Set) (out requests.Committed, err error) {
	body, err := converted[restclient.Set](s)
	if err != nil {
		return out, err
	}
	return answered[requests.Committed](g.api.SetResourceWithResponse(ctx, g.ns, body))
}

func (g generated) Launch(ctx context.Context, l requests.Launch) (out requests.Launched, err error) {
	body, err := converted[restclient.Launch](l)
	if err != nil {
		return out, err
	}
	return answered[requests.Launched](g.api.LaunchTasksWithResponse(ctx, g.ns, body))
}

// Tasks reads all pages.
func (g generated) Tasks(ctx context.Context) (out requests.Tasks, err error) {
	params := restclient.ListTasksParams{Limit: new(int64(2))}
	for {
		page, err := answered[struct {
			Items []requests.Status
			Next  *string
		}](g.api.ListTasksWithResponse(ctx, g.ns, &params))
		if err != nil {
			return out, err
		}
		out.Tasks = append(out.Tasks, page.Items...)
		if params.After = page.Next; params.After == nil {
			return out, nil
		}
	}
}

func (g generated) Status(ctx context.Context, id string) (out requests.Status, err error) {
	return answered[requests.Status](g.api.GetTaskWithResponse(ctx, g.ns, id))
}

func (g generated) Wait(ctx context.Context, until string, timeout time.Duration, ids ...string) (out requests.Waited, err error) {
	params := restclient.WaitTasksParams{Id: ids, Until: new(restclient.WaitTasksParamsUntil(until))}
	if timeout != 0 {
		params.Timeout = new(timeout.String())
	}
	return answered[requests.Waited](g.api.WaitTasksWithResponse(ctx, g.ns, &params))
}

func (g generated) Stop(ctx context.Context, id string, s requests.Stop) error {
	body, err := converted[restclient.Stop](s)
	if err != nil {
		return err
	}
	_, err = answered[struct{}](g.api.StopTaskWithResponse(ctx, g.ns, id, body))
	return err
}

func (g generated) Evict(ctx context.Context, id string, attempt int) error {
	_, err := answered[struct{}](g.api.EvictTaskWithResponse(ctx, g.ns, id, restclient.Evict{Attempt: new(int64(attempt))}))
	return err
}

func (g generated) Reserve(ctx context.Context, r requests.Reserve) error {
	body, err := converted[restclient.Reserve](r)
	if err != nil {
		return err
	}
	_, err = answered[struct{}](g.api.ReserveWithResponse(ctx, g.ns, body))
	return err
}

func (g generated) Unreserve(ctx context.Context, id string) error {
	_, err := answered[struct{}](g.api.UnreserveWithResponse(ctx, g.ns, id))
	return err
}

func (g generated) Commit(ctx context.Context, tx requests.Transaction) (out requests.Committed, err error) {
	body, err := converted[restclient.Transaction](tx)
	if err != nil {
		return out, err
	}
	return answered[requests.Committed](g.api.TransactWithResponse(ctx, g.ns, body))
}

// Watch reads server-sent events, for which the generated client has no type.
func (g generated) Watch(ctx context.Context, w requests.Watch, handle func(requests.Event) error) error {
	res, err := g.api.ClientInterface.Watch(ctx, g.ns, &restclient.WatchParams{Id: &w.IDs, After: &w.After})
	if err != nil {
		return types.Errorf(types.Unavailable, "%w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		var p restclient.Problem
		return errors.Join(json.NewDecoder(res.Body).Decode(&p), failed(&p))
	}
	var e requests.Event
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "id":
			e.ID, err = strconv.ParseInt(value, 10, 64)
		case name == "event":
			e.Kind = value
		case name == "data":
			e.Data = json.RawMessage(value)
		case lines.Text() == "" && e.Kind != "":
			err = handle(e)
			e = requests.Event{}
		}
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return types.Errorf(types.Unavailable, "the watch broke off: %w", lines.Err())
}
