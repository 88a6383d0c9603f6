// Package policylog passes the log of decisions of a server to the command line, over HTTP on the
// port of metrics and health.
package policylog
