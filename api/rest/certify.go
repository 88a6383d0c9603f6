package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/types"
)

// signing is the body of certifyNode.
type signing struct {
	Request string `json:"request" maxLength:"16384" doc:"signing request with the key of the node, in PEM"`
}

// certified is the answer of certifyNode.
type certified struct {
	Certificate string    `json:"certificate" doc:"certificate of the node, in PEM"`
	Expires     time.Time `json:"expires" doc:"when it ends"`
}

// certificates registers the signing of certificates.
func (s *service) certificates() {
	op := operation{http.MethodPost, "/v1/nodes/{node}/certificate", "certifyNode", "Sign the certificate of the agent of a node, which asks for it with its token or its last certificate", "access"}
	post(s, op, func(ctx context.Context, in *NodeBody, b signing) (out certified, err error) {
		if err := types.ValidateName("node", in.Node); err != nil {
			return out, err
		}
		if s.cfg.CA == nil {
			return out, types.Errorf(types.Precondition, "certify node %s: this server signs no certificates: start it with --api-ca, or let the agent go on with its token", in.Node)
		}
		cert, key, expires, err := s.cfg.CA.Sign([]byte(b.Request), in.Node, s.cfg.Now())
		if err != nil {
			return out, err
		}
		m := access.Manager{Store: s.cfg.Store, Now: s.cfg.Now}
		return certified{string(cert), expires.UTC()}, m.Certify(ctx, access.From(ctx), in.Node, key, expires)
	})
}
