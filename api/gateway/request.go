package gateway

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// parseTxn returns the compares and the operations of both branches of an etcdserverpb.TxnRequest.
func parseTxn(data []byte) (compares []compare, branches [2][]operation, err error) {
	err = fields(data, 3, set(1, 2, 3), set(1, 2, 3), func(f field) error {
		if f.num == 1 {
			compares = append(compares, compare{})
			return compares[len(compares)-1].parse(f.bytes)
		}
		ops := &branches[f.num-2]
		*ops = append(*ops, operation{})
		return (*ops)[len(*ops)-1].parse(f.bytes)
	})
	return compares, branches, err
}

// compare is an etcdserverpb.Compare: what it says of a key, or of a range of keys.
type compare struct {
	key, end []byte
	result   pb.Compare_CompareResult
	target   pb.Compare_CompareTarget
	// revision is the compared number; 0 if it is none.
	revision uint64
}

func (c *compare) parse(data []byte) error {
	var with protowire.Number // the field with what the target is compared with
	err := fields(data, 64, set(3, 7, 64), numbers{}, func(f field) error {
		switch f.num {
		case 1:
			c.result = pb.Compare_CompareResult(f.n)
		case 2:
			c.target = pb.Compare_CompareTarget(f.n)
		case 3:
			c.key = f.bytes
		case 64:
			c.end = f.bytes
		default: // one of 4 to 8
			if with != 0 || f.num > 8 {
				return unreadable(errTwoKinds)
			}
			with, c.revision = f.num, f.n
		}
		return nil
	})
	if err == nil && with != 0 && with != firstUnion+protowire.Number(c.target) {
		err = unreadable(errTwoKinds) // etcd would ignore it
	}
	return err
}

// firstUnion is the first of the fields with what a target is compared with, in the order of targets.
const firstUnion = 4

// operation is an etcdserverpb.RequestOp.
type operation struct {
	// kind is the field that it has: a range, a put, a deletion or a transaction.
	kind operationKind
	// key and end are those of a read or a deletion; value and lease those of a put.
	key, end, value []byte
	lease           int64
	// counts reports whether a read only counts, and others whether a field is set that is not served.
	counts, others bool
}

// operationKind is the kind of an operation, by the number of its field.
type operationKind int

const (
	reads   operationKind = 1
	puts    operationKind = 2
	deletes operationKind = 3
)

func (o *operation) parse(data []byte) error {
	return fields(data, 4, set(1, 2, 3, 4), numbers{}, func(f field) error {
		if o.kind != 0 {
			return unreadable(errTwoKinds)
		}
		o.kind = operationKind(f.num)
		switch o.kind {
		case reads:
			return fields(f.bytes, 13, set(1, 2), numbers{}, func(f field) error {
				o.take(f, &o.end)
				o.counts = o.counts || f.num == 9 && f.n != 0
				return nil
			})
		case puts:
			return fields(f.bytes, 6, set(1, 2), numbers{}, func(f field) error {
				switch f.num {
				case 1, 2:
					o.take(f, &o.value)
				case 3:
					o.lease = int64(f.n)
				default:
					o.others = o.others || f.n != 0
				}
				return nil
			})
		case deletes:
			return fields(f.bytes, 3, set(1, 2), numbers{}, func(f field) error {
				o.take(f, &o.end)
				o.others = o.others || f.n != 0
				return nil
			})
		}
		return types.Errorf(types.Invalid, "commit: a transaction within a transaction is not served: send them one by one")
	})
}

// take takes the key of an operation, which is field 1, and its second text.
func (o *operation) take(f field, second *[]byte) {
	switch f.num {
	case 1:
		o.key = f.bytes
	case 2:
		*second = f.bytes
	}
}

// summary is what decides whether an etcdserverpb.WatchResponse passes as it is.
type summary struct {
	id int64
	// settles reports whether it says more than events and progress, such as that a watch has begun.
	settles bool
	// empty reports whether it has no events, and kinds has those of its keys.
	empty bool
	kinds []controlplane.Kind
}

func (s *summary) parse(data []byte) error {
	s.empty = true
	return fields(data, 11, set(1, 6, 11), set(11), func(f field) error {
		switch f.num {
		case 1: // the header
		case 2:
			s.id = int64(f.n)
		case 11:
			s.empty = false
			return fields(f.bytes, 3, set(2, 3), numbers{}, func(f field) error {
				if f.num != 2 {
					s.settles = s.settles || f.num == 3 // the value before
					return nil
				}
				return fields(f.bytes, 6, set(1, 5), numbers{}, func(f field) error {
					if kind := kindOf(f.bytes); f.num == 1 && !slices.Contains(s.kinds, kind) {
						s.kinds = append(s.kinds, kind)
					}
					return nil
				})
			})
		default: // a fragment may have a rest that is hidden
			s.settles = s.settles || f.n != 0 || len(f.bytes) > 0
		}
		return nil
	})
}

// within reports whether the user sees all of the answer.
func (s *summary) within(v view) bool {
	return v.whole() || !s.empty && !slices.ContainsFunc(s.kinds, func(k controlplane.Kind) bool { return !v.kinds[k] })
}
