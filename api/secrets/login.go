package secrets

import (
	"context"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
)

// Login returns the login of an attempt's namespace for the registry of its image; zero if the namespace has
// none. Denied: the attempt is not bound to the node at this moment, or has ended. Precondition: this server
// has no key. Invalid: the secret has no user and password.
func (s Service) Login(ctx context.Context, node, ns, task string, attempt int) (secrets.Login, error) {
	spec, err := s.spec(ctx, node, ns, task, attempt)
	if err != nil {
		return secrets.Login{}, err
	}
	registry := secrets.Registry(spec.Image)
	name, err := secrets.LoginName(registry)
	if err != nil {
		return secrets.Login{}, nil // a loaded image, or a registry that no secret can have
	}
	kv, err := controlplane.Get(ctx, s.Store, controlplane.SecretKey(ns, name))
	if err != nil || kv.ModRevision == 0 {
		return secrets.Login{}, err
	}
	keys, err := s.keys()
	if err != nil {
		return secrets.Login{}, err
	}
	var sealed types.Secret
	if !controlplane.Read(kv, &sealed) {
		return secrets.Login{}, controlplane.Unreadable(kv.Key)
	}
	values, err := keys.Open(ns, name, &sealed)
	if err != nil {
		return secrets.Login{}, err
	}
	user, password := string(values[secrets.Username]), strings.TrimRight(string(values[secrets.Password]), "\r\n")
	if err := secrets.CheckLogin(user, password); err != nil {
		return secrets.Login{}, types.Errorf(types.Invalid, "secret %s: %w: set it with escher secret set --registry %s --username USER -n %s", name, err, registry, ns)
	}
	return secrets.Login{Secret: name, Registry: registry, Username: user, Password: password, Created: kv.CreateRevision, Revision: kv.ModRevision}, nil
}
