package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/replay"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Condition is that no object named by documents has changed since a revision.
type Condition struct {
	// Revision is the revision of the decision; 0 means no condition.
	Revision int64
	// Digest is a digest of the named objects; empty if only the revision is known.
	Digest string
}

// String returns the condition in the form that plan prints: 4711-9f86d081.
func (c Condition) String() string {
	if c.Digest == "" {
		return strconv.FormatInt(c.Revision, 10)
	}
	return fmt.Sprintf("%d-%s", c.Revision, c.Digest)
}

// MarshalText returns the form that plan prints.
func (c Condition) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText parses the form that plan prints; an empty one means no condition.
func (c *Condition) UnmarshalText(text []byte) (err error) {
	if *c = (Condition{}); len(text) > 0 && string(text) != "0" {
		*c, err = ParseCondition(string(text))
	}
	return err
}

// ParseCondition parses the form that plan prints, or a revision alone. Invalid: it is neither.
func ParseCondition(text string) (Condition, error) {
	number, seen, hasDigest := strings.Cut(text, "-")
	revision, err := strconv.ParseInt(number, 10, 64)
	if raw, bad := hex.DecodeString(seen); err != nil || revision <= 0 || hasDigest && (bad != nil || len(raw) != seenBytes) {
		return Condition{}, types.Errorf(types.Invalid, "%q is not the condition of a plan, such as 4711-9f86d081: give that, or leave it out", text)
	}
	return Condition{revision, seen}, nil
}

// seenBytes is the length of a digest in bytes, short because people copy it.
const seenBytes = 4

// digest returns a short digest of texts, in any order.
func digest(seen []string) string {
	slices.Sort(seen)
	sum := sha256.Sum256([]byte(strings.Join(seen, "\n")))
	return hex.EncodeToString(sum[:seenBytes])
}

// Check reads the history of a namespace from the revision of the condition up to another one. So
// it finds objects that came and went in between, which a view does not show.
//
// Conflict: a named object has changed. Precondition: the history is gone, and there is no digest,
// which shows most changes as well.
func (c Condition) Check(ctx context.Context, s controlplane.Store, ns string, docs []manifest.Document, until int64) error {
	if c.Revision == 0 || c.Revision >= until {
		return nil
	}
	prefixes := make(map[string]bool)
	for i := range docs {
		for _, prefix := range concerned(&docs[i], ns) {
			prefixes[prefix] = true
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for prefix := range prefixes {
		g.Go(func() error {
			return replay.Changes(ctx, s, prefix, c.Revision, until, func(changes []controlplane.Event) error {
				for _, e := range changes {
					if slices.ContainsFunc(docs, func(doc manifest.Document) bool { return names(&doc, e) }) {
						return types.Errorf(types.Conflict, "%s has changed at revision %d, after %d: %s", e.Key, e.ModRevision, c.Revision, action.PlanAgain.Of())
					}
				}
				return nil
			})
		})
	}
	err := g.Wait()
	switch {
	case !types.Is(err, types.Compacted):
		return err
	case c.Digest != "" && !slices.ContainsFunc(docs, func(doc manifest.Document) bool {
		return doc.Kind == manifest.KindNamespace || doc.Kind == manifest.KindRight
	}):
		return nil // the digest covers everything except namespaces and rights
	}
	return types.Errorf(types.Precondition, "the history since revision %d is gone: give the whole condition of the plan, such as %d-9f86d081, or %s", c.Revision, c.Revision, action.PlanAgain.Of())
}

// concerned returns the key prefixes that a document may be about.
func concerned(doc *manifest.Document, ns string) []string {
	switch doc.Kind {
	case manifest.KindTask:
		return []string{controlplane.Prefix(controlplane.Tasks, ns)}
	case manifest.KindJob:
		return []string{controlplane.Prefix(controlplane.Jobs, ns)}
	case manifest.KindReservation:
		return []string{controlplane.Prefix(controlplane.Reservations, ns)}
	case manifest.KindPolicy:
		return []string{controlplane.Prefix(controlplane.Policies, ns), controlplane.Prefix(controlplane.Jobs, ns)}
	case manifest.KindNamespace:
		return []string{controlplane.NamespaceKey(doc.Name())}
	case manifest.KindRight:
		return []string{controlplane.RightKey(doc.Name())}
	}
	return []string{controlplane.Prefix(controlplane.Resources, ns, doc.Name())}
}

// names reports whether a document names the changed object.
func names(doc *manifest.Document, e controlplane.Event) bool {
	k, ok := controlplane.Parse(e.Key)
	if !ok {
		return false
	}
	name := doc.Name()
	switch {
	case doc.Kind == manifest.KindTask && k.Kind == controlplane.Tasks:
		var t types.Task
		return e.Delete && ids.MadeOf(k.ID, name) || decoded(e, &t) && t.Job == "" && t.Name == name
	case doc.Kind == manifest.KindJob && k.Kind == controlplane.Jobs:
		var j types.Job
		return e.Delete && ids.MadeOf(k.ID, name) || decoded(e, &j) && j.Name == name
	case doc.Kind == manifest.KindReservation && k.Kind == controlplane.Reservations, doc.Kind == manifest.KindRight && k.Kind == controlplane.Rights,
		doc.Kind == manifest.KindPolicy && (k.Kind == controlplane.Policies || k.Kind == controlplane.Jobs):
		return k.ID == name
	case doc.Kind == manifest.KindResource && k.Kind == controlplane.Resources:
		return k.Name == name
	case doc.Kind == manifest.KindNamespace && k.Kind == controlplane.Namespaces:
		return k.Namespace == name
	}
	return false
}

// decoded decodes a put value; an unreadable one counts as absent.
func decoded(e controlplane.Event, m types.Message) bool {
	return !e.Delete && types.Decode(e.Value, m) == nil
}
