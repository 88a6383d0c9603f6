// Package requests has the bodies of the HTTP API that programs and tasks share: setting a resource,
// launching tasks, reserving, transactions, and what is answered. Direct performs them on the store; Client
// sends them to a server, or to the socket of a task.
package requests
