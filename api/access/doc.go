// Package access decides who may use the HTTP API, and for what. An Authority follows the credentials
// and rights of a cluster. The table of operations says what each needs.
package access
