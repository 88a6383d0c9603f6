package etcdstore

import (
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/escher-sched/escher/controlplane"
)

// encodeTxn encodes the etcdserverpb.TxnRequest of a transaction, with a failure branch that reads
// the keys of some compares. The result equals the encoding of request: a test compares them.
func encodeTxn(txn controlplane.Txn, read []controlplane.Compare) encoded {
	size := 0
	for i := range txn.Compares {
		size += 2*(len(txn.Compares[i].Key)+opOverhead) + len(txn.Compares[i].Content)
	}
	for i := range txn.Ops {
		size += len(txn.Ops[i].Key) + len(txn.Ops[i].Value) + opOverhead
	}
	b := make([]byte, 0, size)
	for i := range txn.Compares {
		b = appendCompare(b, &txn.Compares[i])
	}
	for i := range txn.Ops {
		b = appendOp(b, &txn.Ops[i])
	}
	for _, c := range reads(read) {
		b = appendRead(b, &c)
	}
	return b
}

// opOverhead estimates the size of an operation besides its key and value.
const opOverhead = 32

// Field numbers and enum values of rpc.proto.
const (
	txnCompare, txnSuccess, txnFailure = 1, 2, 3

	compareResult, compareTarget, compareKey                 = 1, 2, 3
	compareCreate, compareMod, compareValue, compareRangeEnd = 5, 6, 7, 64

	opRange, opPut, opDelete   = 1, 2, 3
	putKey, putValue, putLease = 1, 2, 3
	deleteKey                  = 1

	rangeKey, rangeEnd, rangeLimit                = 1, 2, 3
	rangeOrder, rangeTarget, rangeKeys, rangeFrom = 5, 6, 8, 10
)

// appendField appends a number, even if it is 0.
func appendField(b []byte, num protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), n)
}

func appendText(b []byte, num protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), text)
}

// within appends a nested message. It reserves two bytes for the length, which comes first but is
// known last.
func within(b []byte, num protowire.Number, message func(b []byte) []byte) []byte {
	b = protowire.AppendTag(b, num, protowire.BytesType)
	start := len(b)
	b = message(append(b, 0, 0))
	size := len(b) - start - 2
	switch n := protowire.SizeVarint(uint64(size)); {
	case n < 2:
		copy(b[start+1:], b[start+2:])
		b = b[:len(b)-1]
	case n > 2:
		b = append(b, make([]byte, n-2)...)
		copy(b[start+n:], b[start+2:start+2+size])
	}
	protowire.AppendVarint(b[:start], uint64(size))
	return b
}

func appendCompare(b []byte, c *controlplane.Compare) []byte {
	return within(b, txnCompare, func(b []byte) []byte {
		newest := c.Target == controlplane.Newest
		if newest {
			b = appendField(b, compareResult, uint64(etcdserverpb.Compare_LESS))
		}
		if c.Target == controlplane.Value {
			b = appendField(b, compareTarget, uint64(etcdserverpb.Compare_VALUE))
			return appendText(appendText(b, compareKey, c.Key), compareValue, c.Content)
		}
		target, union, revision := etcdserverpb.Compare_MOD, protowire.Number(compareMod), c.Revision
		if c.Target == controlplane.CreateRevision {
			target, union = etcdserverpb.Compare_CREATE, compareCreate
		}
		b = appendField(b, compareTarget, uint64(target))
		if !newest {
			b = appendText(b, compareKey, c.Key)
			return appendField(b, union, uint64(revision))
		}
		// Of an empty range etcd compares 0, which is less.
		key, end := prefixRange(c.Key)
		b = protowire.AppendBytes(protowire.AppendTag(b, compareKey, protowire.BytesType), key)
		b = appendField(b, union, uint64(revision+1))
		return protowire.AppendBytes(protowire.AppendTag(b, compareRangeEnd, protowire.BytesType), end)
	})
}

func appendOp(b []byte, op *controlplane.Op) []byte {
	return within(b, txnSuccess, func(b []byte) []byte {
		if op.Delete {
			return within(b, opDelete, func(b []byte) []byte { return appendText(b, deleteKey, op.Key) })
		}
		return within(b, opPut, func(b []byte) []byte {
			b = appendText(b, putKey, op.Key)
			if len(op.Value) > 0 {
				b = protowire.AppendBytes(protowire.AppendTag(b, putValue, protowire.BytesType), op.Value)
			}
			if op.Lease != 0 {
				b = appendField(b, putLease, uint64(op.Lease))
			}
			return b
		})
	})
}

// appendRead appends a read of the compared key.
func appendRead(b []byte, c *controlplane.Compare) []byte {
	return within(b, txnFailure, func(b []byte) []byte {
		return within(b, opRange, func(b []byte) []byte {
			switch c.Target {
			case controlplane.Newest:
			case controlplane.Value:
				return appendText(b, rangeKey, c.Key)
			default:
				return appendField(appendText(b, rangeKey, c.Key), rangeKeys, 1)
			}
			key, end := prefixRange(c.Key)
			b = protowire.AppendBytes(protowire.AppendTag(b, rangeKey, protowire.BytesType), key)
			b = protowire.AppendBytes(protowire.AppendTag(b, rangeEnd, protowire.BytesType), end)
			b = appendField(b, rangeLimit, 1)
			b = appendField(b, rangeOrder, uint64(etcdserverpb.RangeRequest_DESCEND))
			b = appendField(b, rangeTarget, uint64(etcdserverpb.RangeRequest_MOD))
			b = appendField(b, rangeKeys, 1)
			if c.Revision == -1 {
				return b
			}
			return appendField(b, rangeFrom, uint64(c.Revision+1))
		})
	})
}
