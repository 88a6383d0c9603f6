package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// leaseServer serves leases. The id of a lease names its subject, so that every server knows it.
type leaseServer struct {
	pb.UnimplementedLeaseServer
	g *Gateway
}

// maxTTL bounds the life of a lease without a renewal.
const maxTTL = 10 * time.Minute

// ownerMask has the bits of an id that say whose the lease is.
const ownerMask = 1<<63 - 1<<32

// ownerBits returns the bits of the ids of leases of an owner: see access.Identity.
func ownerBits(owner string) int64 {
	sum := sha256.Sum256([]byte(owner))
	return int64(binary.BigEndian.Uint64(sum[:8]) & ownerMask)
}

// owns reports whether a lease belongs to the user. Root may use all.
func (u user) owns(id int64) bool {
	return u.Root || id > 0 && id&ownerMask == ownerBits(u.Owner())
}

// newID returns a new id of a lease of an owner. etcd refuses one that exists.
func newID(owner string) int64 {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return ownerBits(owner) | int64(binary.BigEndian.Uint32(random[:]))
}

// LeaseGrant creates a lease.
func (s leaseServer) LeaseGrant(ctx context.Context, req *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	if req.ID != 0 {
		return nil, types.Errorf(types.Invalid, "grant lease: id %x: ids are the server's: leave it out", req.ID)
	}
	if req.TTL <= 0 || req.TTL > int64(maxTTL/time.Second) {
		return nil, types.Errorf(types.Invalid, "grant lease: %d seconds to live are out of range: give 1 to %d", req.TTL, int64(maxTTL/time.Second))
	}
	u := from(ctx)
	uses := u.Root || u.node != "" || u.Somewhere(u.writing[controlplane.Sessions]) || u.May(rights.Need{Verb: rights.Write, Kind: rights.Bindings}, "") == nil
	if !uses {
		return nil, u.denied("grant", "a lease, as it may write no key that has one")
	}
	if err := s.g.leases.Message(u.Subject); err != nil {
		return nil, err
	}
	for {
		req.ID = newID(u.Owner())
		res, err := s.g.lease.LeaseGrant(onward(ctx), req)
		if !errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseExist) {
			return res, err
		}
	}
}

// LeaseRevoke ends a lease.
func (s leaseServer) LeaseRevoke(ctx context.Context, req *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	if !from(ctx).owns(req.ID) {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	return s.g.lease.LeaseRevoke(onward(ctx), req)
}

// LeaseTimeToLive tells about a lease.
func (s leaseServer) LeaseTimeToLive(ctx context.Context, req *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	if !from(ctx).owns(req.ID) {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	return s.g.lease.LeaseTimeToLive(onward(ctx), req)
}

// LeaseKeepAlive renews leases.
func (s leaseServer) LeaseKeepAlive(client grpc.BidiStreamingServer[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse]) error {
	ctx := client.Context()
	u := from(ctx)
	etcd, err := s.g.lease.LeaseKeepAlive(onward(ctx))
	if err != nil {
		return err
	}
	for {
		req, err := client.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.g.cfg.Use.Message(u.Subject); err != nil {
			return err
		}
		answer := &pb.LeaseKeepAliveResponse{Header: new(pb.ResponseHeader), ID: req.ID} // no time to live: there is none
		if u.owns(req.ID) {
			// An error of Send is io.EOF; Recv returns the reason.
			if err := etcd.Send(req); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if answer, err = etcd.Recv(); err != nil {
				return err
			}
		}
		if err := client.Send(answer); err != nil {
			return err
		}
	}
}
