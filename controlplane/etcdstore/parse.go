package etcdstore

import (
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/escher-sched/escher/controlplane"
)

// fields calls visit with the number and value of each field of a message. The value is a number or
// bytes. It skips fields of other types, which the parsed messages do not have.
func fields(data []byte, visit func(num protowire.Number, n uint64, b []byte) error) error {
	for len(data) > 0 {
		num, typ, size := protowire.ConsumeTag(data)
		if size < 0 {
			return protowire.ParseError(size)
		}
		data = data[size:]
		var n uint64
		var b []byte
		switch typ {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			b, size = protowire.ConsumeBytes(data)
		default:
			num, size = 0, protowire.ConsumeFieldValue(num, typ, data)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		data = data[size:]
		if num == 0 {
			continue
		}
		if err := visit(num, n, b); err != nil {
			return err
		}
	}
	return nil
}

// count returns the number of fields with a number.
func count(data []byte, number protowire.Number) int {
	found := 0
	// The caller's own pass reports errors.
	_ = fields(data, func(num protowire.Number, _ uint64, _ []byte) error {
		if num == number {
			found++
		}
		return nil
	})
	return found
}

// parseKV parses an mvccpb.KeyValue. The value aliases the data.
func parseKV(data []byte, kv *controlplane.KV) error {
	return fields(data, func(num protowire.Number, n uint64, b []byte) error {
		switch num {
		case 1:
			kv.Key = string(b)
		case 2:
			kv.CreateRevision = int64(n)
		case 3:
			kv.ModRevision = int64(n)
		case 5:
			kv.Value = b[:len(b):len(b)]
		case 6:
			kv.Lease = controlplane.LeaseID(n)
		}
		return nil
	})
}

// revisionOf parses the revision of an etcdserverpb.ResponseHeader.
func revisionOf(header []byte) (revision int64, err error) {
	err = fields(header, func(num protowire.Number, n uint64, _ []byte) error {
		if num == 3 {
			revision = int64(n)
		}
		return nil
	})
	return revision, err
}

// rangePart is an etcdserverpb.RangeStreamResponse: a part of a range. The last part has the
// revision of the store, the others 0.
type rangePart struct {
	kvs      []controlplane.KV
	revision int64
}

func (p *rangePart) parse(data []byte) error {
	return fields(data, func(num protowire.Number, _ uint64, b []byte) error {
		if num != 1 {
			return nil
		}
		return p.parseRange(b)
	})
}

// parseRange parses an etcdserverpb.RangeResponse.
func (p *rangePart) parseRange(data []byte) error {
	p.kvs = make([]controlplane.KV, 0, count(data, 2))
	return fields(data, func(num protowire.Number, _ uint64, b []byte) (err error) {
		switch num {
		case 1:
			p.revision, err = revisionOf(b)
		case 2:
			p.kvs = append(p.kvs, controlplane.KV{})
			err = parseKV(b, &p.kvs[len(p.kvs)-1])
		}
		return err
	})
}

// txnAnswer is an etcdserverpb.TxnResponse.
type txnAnswer struct {
	succeeded bool
	revision  int64
	// found are the keys found by the reads of a branch, empty for absent ones.
	found []controlplane.KV
}

func (a *txnAnswer) parse(data []byte) error {
	*a = txnAnswer{}
	return fields(data, func(num protowire.Number, n uint64, b []byte) (err error) {
		switch num {
		case 1:
			a.revision, err = revisionOf(b)
		case 2:
			a.succeeded = n != 0
		case 3:
			err = a.parseOp(b)
		}
		return err
	})
}

// parseOp parses an etcdserverpb.ResponseOp, if it belongs to a read.
func (a *txnAnswer) parseOp(data []byte) error {
	return fields(data, func(num protowire.Number, _ uint64, b []byte) error {
		if num != 1 {
			return nil
		}
		var read rangePart
		err := read.parseRange(b)
		var kv controlplane.KV
		if len(read.kvs) == 1 {
			kv = read.kvs[0]
		}
		a.found = append(a.found, kv)
		return err
	})
}

// watchAnswer is an etcdserverpb.WatchResponse.
type watchAnswer struct {
	// id is the id of the watch; noWatch means the whole stream.
	id                          int64
	created, canceled, fragment bool
	reason                      string
	revision, compacted         int64
	events                      []controlplane.Event
}

func (a *watchAnswer) parse(data []byte) error {
	*a = watchAnswer{}
	if n := count(data, 11); n > 0 {
		a.events = make([]controlplane.Event, 0, n)
	}
	return fields(data, func(num protowire.Number, n uint64, b []byte) (err error) {
		switch num {
		case 1:
			a.revision, err = revisionOf(b)
		case 2:
			a.id = int64(n)
		case 3:
			a.created = n != 0
		case 4:
			a.canceled = n != 0
		case 5:
			a.compacted = int64(n)
		case 6:
			a.reason = string(b)
		case 7:
			a.fragment = n != 0
		case 11:
			a.events = append(a.events, controlplane.Event{})
			err = parseEvent(b, &a.events[len(a.events)-1])
		}
		return err
	})
}

// parseEvent parses an mvccpb.Event.
func parseEvent(data []byte, e *controlplane.Event) error {
	err := fields(data, func(num protowire.Number, n uint64, b []byte) error {
		switch num {
		case 1:
			e.Delete = n == uint64(mvccpb.Event_DELETE)
		case 2:
			return parseKV(b, &e.KV)
		}
		return nil
	})
	if e.Delete {
		e.KV = controlplane.KV{Key: e.Key, ModRevision: e.ModRevision}
	}
	return err
}
