// Package rest is the HTTP API of Escher: one set of operations, with JSON, for programs in any
// language. Each operation is registered with its types, so that /openapi.json describes exactly what
// is served.
//
// Objects of a namespace are below /v1/namespaces/{namespace}; those of the cluster below /v1. Bodies
// have the fields of the task socket and of files of objects. An error is a problem of RFC 9457, with
// the class of the error.
package rest
