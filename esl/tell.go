package esl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Validator is a Policy that checks its parameters by themselves. Who keeps it says what is
// wrong with them, as who submitted it in a file may not know the policy.
type Validator interface {
	Policy
	// Validate checks the parameters. Invalid: the error names one, its value and the
	// remedy.
	Validate() error
}

// tell has stored with the policies of a key what is wrong with those that are kept here,
// where that is not so yet. What others keep is theirs to say; and where these know the same
// kinds otherwise, each says so once.
func (k *keeping) tell(ctx context.Context, id cluster.ID, c *cluster.Cell[types.Policies], page *page) {
	want := *c.V
	want.Policies = slices.Clone(c.V.Policies)
	for i := range want.Policies {
		if p := &want.Policies[i]; k.opts.Kinds[p.Kind] != nil {
			p.Wrong = strings.TrimPrefix(page.says(i), "policy "+p.Kind+": ")
		}
	}
	text := fmt.Sprintf("%q", want.Policies)
	if slices.Equal(want.Policies, c.V.Policies) || k.told[id] == text {
		return
	}
	client, err := k.client(id.Namespace)
	if err != nil {
		return // no namespace of anybody
	}
	k.told[id] = text
	k.telling.Go(func() { k.storeWrong(ctx, client, id, want, c.Mod) })
}

// says returns what is wrong with the parameters of one of the policies.
func (p *page) says(i int) string {
	err := p.wrong[i]
	if v, ok := p.policies[i].(Validator); ok && err == nil {
		if panicked := contained(func() { err = v.Validate() }); panicked != nil {
			err = panicked
		}
	}
	if err == nil {
		return ""
	}
	says, _, _ := strings.Cut(err.Error(), "\n")
	return says
}

// storeWrong stores policies in place of those of a revision. Whatever has changed since is read
// again, and looked at anew.
func (k *keeping) storeWrong(ctx context.Context, c *controlplane.Client, id cluster.ID, want types.Policies, revision int64) {
	retry := controlplane.RetryPolicy()
	for {
		_, err := c.Begin(k.opts.Guard).SetPolicies(id.ID, want, revision).Commit(ctx)
		if err == nil || !types.ClassOf(err).Retryable() && !types.Is(err, types.Precondition) {
			return
		}
		k.opts.Log.Warn("what is wrong with policies is not stored yet", zap.String("namespace", id.Namespace), zap.String("policy", id.ID), zap.Error(err))
		select {
		case <-time.After(retry.NextBackOff()):
		case <-ctx.Done():
			return
		}
	}
}

// misread says of an error of encoding/json which parameter of a policy is wrong.
func misread(err error, parameters reflect.Type) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fmt.Errorf("%s: a %s is given: write what is of type %s", wrong.Field, wrong.Value, wrong.Type)
	}
	if parameters.Kind() == reflect.Pointer {
		parameters = parameters.Elem()
	}
	name, unknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	if !unknown || parameters.Kind() != reflect.Struct {
		return err
	}
	var names []string
	for i := range parameters.NumField() {
		f := parameters.Field(i)
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && tag != "-" {
			names = append(names, cmp.Or(tag, f.Name))
		}
	}
	return fmt.Errorf("%s: is unknown: use %s", strings.Trim(name, `"`), strings.Join(names, ", "))
}
