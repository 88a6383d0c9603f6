// Package audittest puts every revision of a test's store before the audit, and
// writes histories of keys as text.
package audittest
