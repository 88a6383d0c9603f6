// Package document has the JSON documents that describe objects of a cluster: the HTTP API answers
// with them, and the command line prints them with -o json. Their fields have the names that files
// of objects use.
package document
