// Package laws holds the laws of the house that a machine can check: which
// package may import which, how long files and functions may be, and what no
// package may have. It has tests only.
package laws
