// Package access decides which callers may perform which operations of the HTTP API. An Authority
// follows the credentials and rights of a cluster. The table of operations lists what each needs.
package access
