// Package gateway serves etcd's own API (KV, Watch and Lease) to programs and agents that have an
// identity, but no certificate of etcd. The keyspace is its table of rights: each kind of key says who
// may read it, and package writers who may write it.
//
//   - It answers a range with the keys that the caller may read, and leaves others out. It refuses a
//     range of a kind of which the caller may read nothing.
//   - It takes only transactions that compare each key that they put, and values that a reader takes.
//     A put of work also compares whether the cluster and the namespace admit any.
//   - A lease belongs to the subject that made it.
//
// The messages are those of go.etcd.io/etcd/api/v3/etcdserverpb.
package gateway
