package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// fail returns the error of a call without effects, or whose effects do not matter when its answer
// is lost.
func (s *Store) fail(ctx context.Context, what string, err error) error {
	class := classify(err)
	if class == types.Unavailable {
		return types.Errorf(class, "%s: reach etcd at %s: %w", what, s.at(), cause(ctx, err))
	}
	return types.Errorf(class, "%s: etcd at %s: %w", what, s.at(), cause(ctx, err))
}

// failCommit returns the error of a transaction. sent reports whether any of it may have left this
// process.
func (s *Store) failCommit(ctx context.Context, err error, sent bool) error {
	if classify(err) == types.Unavailable && sent && !refused(err) {
		return types.Errorf(types.Unknown, "commit: no answer from etcd at %s, it may have been applied: %w", s.at(), cause(ctx, err))
	}
	return s.fail(ctx, "commit", err)
}

// refused reports whether etcd answered before it proposed the transaction. That excludes a leader
// change, a timeout and a stopping server: the transaction may then be in the log.
func refused(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrNoLeader) || errors.Is(err, rpctypes.ErrTooManyRequests)
}

// classify returns the class of an error of etcd or gRPC: Unavailable for every error that may not
// occur again.
func classify(err error) types.Class {
	switch known := rpctypes.Error(err); {
	case errors.Is(known, rpctypes.ErrCompacted):
		return types.Compacted
	case isNoSpace(err):
		return types.Precondition
	case errors.Is(known, rpctypes.ErrTooManyRequests):
		return types.Unavailable
	}
	switch status.Code(err) {
	case codes.NotFound:
		return types.NotFound
	case codes.InvalidArgument, codes.OutOfRange, codes.ResourceExhausted:
		return types.Invalid
	case codes.PermissionDenied, codes.Unauthenticated:
		return types.Denied
	case codes.FailedPrecondition, codes.Unimplemented:
		return types.Precondition
	case codes.DataLoss:
		return types.Internal
	default:
		return types.Unavailable
	}
}

// cause returns an error without gRPC's preamble, or the reason why ctx is done.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if isNoSpace(err) {
		return controlplane.ErrFull
	}
	if status.Code(err) == codes.Unimplemented {
		return fmt.Errorf("the server there is not etcd, or older than 3.4: %s", rpctypes.ErrorDesc(err))
	}
	return errors.New(plainly(rpctypes.ErrorDesc(err)))
}

// plainly returns gRPC's text about a connection without its preambles.
func plainly(text string) string {
	if quoted, ok := strings.CutPrefix(text, "connection error: desc = "); ok {
		if inner, err := strconv.Unquote(quoted); err == nil {
			text = inner
		}
	}
	for _, preamble := range [...]string{"transport: ", "Error while dialing: ", "dial "} {
		text = strings.TrimPrefix(text, preamble)
	}
	return text
}

// Remedy returns what to do about a TLS error on the way to etcd; empty for other errors.
func Remedy(err error) types.Text {
	cert, key, ca := action.EtcdCert.Of(), action.EtcdKey.Of(), action.EtcdCA.Of()
	name := types.Textf("give the name in etcd's certificate with %s", action.EtcdServerName.Of())
	encrypted := types.Textf("etcd may want TLS there: write https://, and give %s and %s", cert, key)
	for _, x := range [...]struct {
		says   string
		remedy types.Text
	}{
		{"remote error: tls: expired certificate", types.Textf("renew the certificate of %s", cert)},
		{"remote error: tls: ", types.Textf("give a certificate that etcd accepts, and its key, with %s and %s", cert, key)},
		{"certificate signed by unknown authority", types.Textf("give the file of the authority of etcd's certificate with %s", ca)},
		{"certificate is valid for ", name},
		{"certificate is not valid for any names", name},
		{"IP SANs", name},
		{"certificate has expired or is not yet valid", types.Textf("renew etcd's certificate, or set the clock")},
		{"first record does not look like a TLS handshake", types.Textf("etcd is not encrypted there: write http://, and leave out %s, %s and %s", ca, cert, key)},
		// A client without a certificate gets an error, or a closed connection.
		{"error reading server preface", encrypted},
		{"broken pipe", encrypted},
	} {
		if strings.Contains(err.Error(), x.says) {
			return x.remedy
		}
	}
	return types.Text{}
}

func isNoSpace(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace) }

// at returns the endpoints, for errors.
func (s *Store) at() string { return strings.Join(s.client.Endpoints(), ", ") }

func leaseName(id controlplane.LeaseID) string { return fmt.Sprintf("lease %x", int64(id)) }
