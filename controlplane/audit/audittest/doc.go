// Package audittest audits every revision of a test's store, and reads and writes histories of keys
// as text.
package audittest
