package parts

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/secrets"
	"github.com/escher-sched/escher/nodeagent"
	given "github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
)

// secretsKeys returns the keys in a file; nil for no file.
func secretsKeys(path string) (*secrets.Keys, error) {
	if path == "" {
		return nil, nil
	}
	return secrets.Load(path)
}

// OwnSecrets opens the secrets of attempts in this process, which is a server too.
func OwnSecrets(service secrets.Service) func(context.Context, nodeagent.Attempt) (given.Values, error) {
	return func(ctx context.Context, a nodeagent.Attempt) (given.Values, error) {
		values, err := service.For(ctx, a.Node, a.Namespace, a.Task, a.Number)
		return given.Values(values), err
	}
}

// OwnLogins opens the logins of attempts in this process, which is a server too.
func OwnLogins(service secrets.Service) func(context.Context, nodeagent.Attempt) (given.Login, error) {
	return func(ctx context.Context, a nodeagent.Attempt) (given.Login, error) {
		return service.Login(ctx, a.Node, a.Namespace, a.Task, a.Number)
	}
}

// secrets returns what gets the secrets of attempts from the server.
func (j Join) secrets(id *nodeIdentity) func(context.Context, nodeagent.Attempt) (given.Values, error) {
	return func(ctx context.Context, a nodeagent.Attempt) (given.Values, error) {
		var answer struct{ Secrets given.Values }
		err := j.open(ctx, id, a, "/secrets", &answer)
		return answer.Secrets, opens(j.Server, err)
	}
}

// logins returns what gets the logins of attempts from the server. An older server has none, and the tasks of
// a new agent must run there.
func (j Join) logins(id *nodeIdentity) func(context.Context, nodeagent.Attempt) (given.Login, error) {
	return func(ctx context.Context, a nodeagent.Attempt) (login given.Login, err error) {
		err = j.open(ctx, id, a, "/secrets/registry", &login)
		if isOlder(err) {
			return given.Login{}, nil
		}
		return login, err
	}
}

// open asks the server for what an attempt may have, with the certificate of the node or, without one, with
// its token.
func (j Join) open(ctx context.Context, id *nodeIdentity, a nodeagent.Attempt, path string, into any) error {
	conf := client.Config{Server: j.Server, CACert: j.CACert, Token: j.Token}
	if id.has() {
		conf.Token, conf.Certificate = "", id.present
	}
	c, err := client.New(conf)
	if err != nil {
		return err
	}
	defer c.Close()
	body := map[string]any{"namespace": a.Namespace, "task": a.Task, "attempt": a.Number}
	return c.Do(ctx, http.MethodPost, "/v1/nodes/"+url.PathEscape(a.Node)+path, body, into)
}

// isOlder reports whether a server has no such operation.
func isOlder(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "there is no such operation") || strings.Contains(err.Error(), " answers 404: "))
}

// opens returns the error of a request to open secrets. Unavailable: the server has no such operation, as it
// is older. An upgrade mends that, so it does not mean that a secret is missing.
func opens(server string, err error) error {
	if !isOlder(err) {
		return err
	}
	return types.Errorf(types.Unavailable, "open secrets: the server at %s cannot: %w: upgrade this server", server, err)
}
