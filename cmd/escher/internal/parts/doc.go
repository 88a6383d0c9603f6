// Package parts has the components of clusters, in one process or many: the server, an agent, and
// the Stack that starts and stops them in order.
package parts
