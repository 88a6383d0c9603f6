// Package gateway serves etcd's own API (KV, Watch and Lease) to programs and agents that have an
// identity, but no certificate of etcd. The keyspace is its table of rights: package access says which right
// reads the keys of each kind, and package writers which role writes them.
//
//   - It answers a range with the keys that the caller may read, and leaves others out. It refuses a
//     range of a kind of which the caller may read nothing.
//   - It takes only transactions that compare what their changes rely on, and values that a reader takes.
//     New work needs room in the cluster and in its namespace, and a deleted task has ended.
//   - A lease belongs to the subject that made it.
//
// The messages are those of go.etcd.io/etcd/api/v3/etcdserverpb.
package gateway
