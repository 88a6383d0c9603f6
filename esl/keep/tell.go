package keep

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// tell stores the errors of the policies of a key, for the kinds known here, unless they are stored
// already. Other programs report their own. If two know a kind differently, each stores its error
// once.
func (k *loop) tell(ctx context.Context, id cluster.ID, c *cluster.Cell[types.Policies], page *esl.Entry) {
	want := *c.V
	want.Policies = slices.Clone(c.V.Policies)
	for i := range want.Policies {
		if p := &want.Policies[i]; k.opts.Kinds.Of(p.Kind) != nil {
			p.Wrong = strings.TrimPrefix(says(page, i), "policy "+p.Kind+": ")
		}
	}
	text := fmt.Sprintf("%q", want.Policies)
	if slices.Equal(want.Policies, c.V.Policies) || k.told[id] == text {
		return
	}
	client, err := k.client(id.Namespace)
	if err != nil {
		return // not a valid namespace
	}
	k.told[id] = text
	k.telling.Go(func() { k.storeWrong(ctx, client, id, want, c.Mod) })
}

// says returns the error in the parameters of one of the policies.
func says(p *esl.Entry, i int) string {
	err := p.Wrong[i]
	if v, ok := p.Policies[i].(esl.Validator); ok && err == nil {
		if panicked := esl.Contain(func() { err = v.Validate() }); panicked != nil {
			err = panicked
		}
	}
	if err == nil {
		return ""
	}
	says, _, _ := strings.Cut(err.Error(), "\n")
	return says
}

// storeWrong replaces policies at a revision. After another change they are read and checked again.
func (k *loop) storeWrong(ctx context.Context, c *controlplane.Client, id cluster.ID, want types.Policies, revision int64) {
	retry := controlplane.RetryPolicy()
	for {
		_, err := c.Begin(k.opts.Guard).SetPolicies(id.ID, want, revision).Commit(ctx)
		if err == nil || !types.ClassOf(err).Retryable() && !types.Is(err, types.Precondition) {
			return
		}
		k.opts.Log.Warn("what is wrong with policies is not stored yet", zap.String("namespace", id.Namespace), zap.String("policy", id.ID), zap.Error(err))
		if supervise.Pause(ctx, retry.NextBackOff()) != nil {
			return
		}
	}
}
