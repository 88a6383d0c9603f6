package rest

import (
	"context"
	"net/http"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl/builtin"
)

// resources registers the operations on resources, reservations and policies.
func (s *service) resources() {
	const in = "/v1/namespaces/{namespace}/"
	add(s, operation{http.MethodGet, in + "resources", "listResources", "List the ephemeral resources, by name and place", "resources"},
		func(ctx context.Context, in *InPart) (page[document.Resource], error) {
			direct, err := s.direct(ctx, in.Namespace)
			if err != nil {
				return page[document.Resource]{}, err
			}
			state, err := direct.State(ctx, false)
			if err != nil {
				return page[document.Resource]{}, err
			}
			return paged(&in.Part, state.Revision, document.ResourcesOf(&state.State), document.Resource.Key), nil
		})
	post(s, operation{http.MethodPost, in + "resources", "setResource", "Create, change or remove an ephemeral resource", "resources"},
		func(ctx context.Context, in *InBody, b requests.Set) (requests.Committed, error) {
			direct, err := s.direct(ctx, in.Namespace)
			if err != nil {
				return requests.Committed{}, err
			}
			return direct.Set(ctx, b)
		})
	s.reservations(in+"reservations", "reservations")
	add(s, operation{http.MethodGet, in + "policies", "listPolicies", "List the policies of jobs, and shared policies, by id", "policies"},
		func(ctx context.Context, in *InPart) (page[document.Policies], error) {
			view, err := s.view(ctx, in.Namespace, controlplane.Policies, controlplane.Jobs)
			if err != nil {
				return page[document.Policies]{}, err
			}
			return paged(&in.Part, view.Revision, document.PoliciesOf(view), func(p document.Policies) string { return p.ID }), nil
		})
	add(s, operation{http.MethodDelete, in + "policies/{id}", "withdrawPolicy", "End a shared policy, with the resources that it created", "policies"},
		func(ctx context.Context, in *struct {
			InNamespace
			ID    string `path:"id" doc:"the name, in full"`
			Force bool   `query:"force" doc:"even if jobs refer to it, whose waiting tasks then wait for ever"`
		},
		) (requests.Committed, error) {
			client, err := s.client(ctx, in.Namespace)
			if err != nil {
				return requests.Committed{}, err
			}
			return requests.Committed{}, builtin.New(client).Withdraw(ctx, in.ID, in.Force)
		})
}

// reservations registers the operations on reservations.
func (s *service) reservations(path, tag string) {
	add(s, operation{http.MethodGet, path, "listReservations", "List reservations with their grants, by id", tag},
		func(ctx context.Context, in *InPart) (page[document.Reservation], error) {
			view, err := s.view(ctx, in.Namespace, controlplane.Reservations, controlplane.Grants)
			if err != nil {
				return page[document.Reservation]{}, err
			}
			var all []document.Reservation
			for id, r := range view.Reservations {
				if !document.OfTask(r) {
					all = append(all, document.ReservationOf(id, r))
				}
			}
			return paged(&in.Part, view.Revision, all, func(r document.Reservation) string { return r.ID }), nil
		})
	post(s, operation{http.MethodPost, path, "reserve", "Reserve bundles of resources: all or none", tag},
		func(ctx context.Context, in *InBody, b requests.Reserve) (requests.Committed, error) {
			direct, err := s.direct(ctx, in.Namespace)
			if err != nil {
				return requests.Committed{}, err
			}
			return requests.Committed{}, direct.Reserve(ctx, b)
		})
	add(s, operation{http.MethodDelete, path + "/{id}", "unreserve", "End a reservation", tag},
		func(ctx context.Context, in *ByID) (requests.Committed, error) {
			client, err := s.client(ctx, in.Namespace)
			if err != nil {
				return requests.Committed{}, err
			}
			return requests.Committed{}, client.Unreserve(ctx, in.ID)
		})
	s.explain(path+"/{id}/why", "explainReservation", "Explain the state of a reservation, such as why it waits", tag, why.KindReservation, controlplane.Reservations)
}

// view reads the keys of some kinds of a namespace.
func (s *service) view(ctx context.Context, ns string, kinds ...controlplane.Kind) (*cluster.View, error) {
	if _, err := s.client(ctx, ns); err != nil {
		return nil, err
	}
	var prefixes []string
	for _, k := range kinds {
		prefixes = append(prefixes, controlplane.Prefix(k, ns))
	}
	return cluster.ReadView(ctx, s.cfg.Store, prefixes...)
}
