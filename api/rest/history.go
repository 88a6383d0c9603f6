package rest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
	"github.com/escher-sched/escher/types/labels"
	"github.com/escher-sched/escher/types/rights"
)

// history registers the operations on ended tasks.
func (s *service) history() {
	const tag = "history"
	add(s, operation{http.MethodGet, "/v1/history", "listHistory", "List ended tasks, the latest first", tag}, s.listHistory)
	add(s, operation{http.MethodGet, "/v1/requests", "listRequests", "List requests that changed something or were refused, the latest first", tag}, s.listRequests)
	add(s, operation{http.MethodGet, "/v1/usage", "getUsage", "Sum up what ended attempts held and used", tag}, s.getUsage)
}

// Past is an input that selects records of the history.
type Past struct {
	Namespace string `query:"namespace" maxLength:"256" doc:"only those of this namespace"`
	User      string `query:"user" maxLength:"256" doc:"only those of this user"`
	Selector  string `query:"selector" maxLength:"4096" doc:"labels that the tasks have, such as team=vision,stage!=dev"`
	Since     string `query:"since" maxLength:"64" doc:"only what ended after this time in the form of RFC 3339, or for so long, such as 24h"`
	Until     string `query:"until" maxLength:"64" doc:"only what ended until then, written like since"`
}

// filter returns the filter that is asked for. Invalid: a field is wrong. Denied: the caller may not read
// the history of that namespace or, without one, of the cluster.
func (p *Past) filter(ctx context.Context, now time.Time) (f accounting.Filter, err error) {
	if err := access.From(ctx).May(rights.Need{Verb: rights.Read, Kind: rights.History}, p.Namespace); err != nil {
		return f, err
	}
	f = accounting.Filter{Namespace: p.Namespace, User: issued.Name(p.User)}
	if p.Selector != "" {
		if f.Selector, err = labels.Parse("selector", p.Selector); err != nil {
			return f, err
		}
	}
	if f.Since, err = moment("since", p.Since, now); err == nil {
		f.Until, err = moment("until", p.Until, now)
	}
	return f, err
}

// moment parses a time, or a duration before now; 0 for none.
func moment(field, text string, now time.Time) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d).UnixNano(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, types.Errorf(types.Invalid, "%s: %q is no time: write it such as 24h or 2026-12-01T08:00:00Z", field, text)
	}
	return at.UnixNano(), nil
}

// pastTasks is the input of listHistory.
type pastTasks struct {
	Past
	Part
	Job   string   `query:"job" maxLength:"256" doc:"only tasks of the job with this id or name"`
	Phase []string `query:"phase" maxItems:"3" enum:"succeeded,failed,cancelled" doc:"only tasks that ended in these phases, with commas between"`
}

// historyPage is a part of the history.
type historyPage struct {
	Items    []document.Record `json:"items" nullable:"false"`
	Next     string            `json:"next,omitempty" doc:"if there are more: the value of after for the next page"`
	Complete *time.Time        `json:"complete,omitempty" doc:"if the history of this server lacks something since then: since when it lacks nothing"`
}

func (s *service) listHistory(ctx context.Context, in *pastTasks) (historyPage, error) {
	out := historyPage{Items: []document.Record{}}
	f, err := in.filter(ctx, s.cfg.Now())
	if err != nil {
		return out, err
	}
	f.Job = in.Job
	for _, p := range in.Phase {
		f.Phases = append(f.Phases, types.Phase(p))
	}
	page, err := s.cfg.History.History(ctx, f, in.Limit, in.After)
	for i := range page.Tasks {
		out.Items = append(out.Items, document.RecordOf(&page.Tasks[i]))
	}
	out.Next, out.Complete = page.Next, missing(f.Since, page.Complete)
	return out, err
}

// usageAsked is the input of getUsage.
type usageAsked struct {
	Past
	By    []string `query:"by" maxItems:"8" doc:"what to sum up by, with commas between: namespace, user, or a label, such as label=team"`
	Limit int      `query:"limit" minimum:"1" maximum:"10000" default:"500" doc:"how many groups to list at most: those with the most GPU-seconds, then the most CPU-seconds"`
}

// usageAnswer is the usage of groups.
type usageAnswer struct {
	Items    []document.Usage `json:"items" nullable:"false"`
	Left     int              `json:"left,omitempty" doc:"how many more groups there are"`
	Complete *time.Time       `json:"complete,omitempty" doc:"if the history of this server lacks something since then: since when it lacks nothing"`
}

func (s *service) getUsage(ctx context.Context, in *usageAsked) (usageAnswer, error) {
	out := usageAnswer{Items: []document.Usage{}}
	f, err := in.filter(ctx, s.cfg.Now())
	if err != nil {
		return out, err
	}
	var by []accounting.By
	for _, text := range in.By {
		b, err := accounting.ParseBy(text)
		if err != nil {
			return out, err
		}
		by = append(by, b)
	}
	sums, complete, err := s.cfg.History.Usage(ctx, f, by)
	for i := range sums[:min(len(sums), in.Limit)] {
		out.Items = append(out.Items, document.UsageOf(&sums[i], by))
	}
	out.Left, out.Complete = max(0, len(sums)-in.Limit), missing(f.Since, complete)
	return out, err
}

// missing returns the time since which the history is complete, if that is after the time asked for.
func missing(since, complete int64) *time.Time {
	if complete <= since {
		return nil
	}
	return document.Moment(complete)
}

// recordedRequest is a request that changed something, or was refused.
type recordedRequest struct {
	ID        int64     `json:"id" doc:"its number on this server"`
	At        time.Time `json:"at"`
	User      string    `json:"user,omitempty" doc:"its sender, as user:NAME or service:NAME; none if it had no valid token"`
	Token     string    `json:"token,omitempty" doc:"the id of its token"`
	Operation string    `json:"operation"`
	Namespace string    `json:"namespace,omitempty" doc:"none for the cluster"`
	Object    string    `json:"object,omitempty" doc:"the first key that it changed, else what it names"`
	More      int       `json:"more,omitempty" doc:"how many further keys it changed"`
	Revision  int64     `json:"revision,omitempty" doc:"the revision of its last change; none if it changed no key"`
	Refused   string    `json:"refused,omitempty" doc:"why it was refused"`
}

// listedRequests is the input of listRequests.
type listedRequests struct {
	Part
	Namespace string `query:"namespace" maxLength:"63" doc:"only those about this namespace"`
	User      string `query:"user" maxLength:"128" doc:"only those of this user: user:NAME, service:NAME, or NAME"`
	Since     string `query:"since" maxLength:"64" doc:"only what came after this time in the form of RFC 3339, or for so long, such as 24h"`
	Until     string `query:"until" maxLength:"64" doc:"only what came until then, written like since"`
	Refused   bool   `query:"refused" doc:"only those that were refused"`
}

// requestPage is a part of the log of requests.
type requestPage struct {
	Items []recordedRequest `json:"items" nullable:"false"`
	Next  string            `json:"next,omitempty" doc:"if there may be more: the value of after for the next page"`
}

func (s *service) listRequests(ctx context.Context, in *listedRequests) (requestPage, error) {
	out := requestPage{Items: []recordedRequest{}}
	err := access.From(ctx).May(rights.Need{Verb: rights.Read, Kind: rights.Audit}, in.Namespace)
	f := accounting.RequestFilter{Namespace: in.Namespace, User: issued.Subject(in.User), Refused: in.Refused}
	now := s.cfg.Now()
	if err == nil {
		f.Since, err = moment("since", in.Since, now)
	}
	if err == nil {
		f.Until, err = moment("until", in.Until, now)
	}
	var before int64
	if err == nil && in.After != "" {
		if before, err = strconv.ParseInt(in.After, 10, 64); err != nil || before <= 0 {
			err = types.Errorf(types.Invalid, "after: %q is no number: give next of the page before", types.Cut(in.After, types.MaxName))
		}
	}
	if err != nil {
		return out, err
	}
	all, err := s.cfg.History.Requests(ctx, f, in.Limit, before)
	for _, q := range all {
		out.Items = append(out.Items, recordedRequest{q.ID, time.Unix(0, q.At).UTC(), q.Subject, q.Token, q.Operation, q.Namespace, q.Object, q.More, q.Revision, q.Refused})
	}
	if len(all) == in.Limit {
		out.Next = strconv.FormatInt(all[len(all)-1].ID, 10)
	}
	return out, err
}
