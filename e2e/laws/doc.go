// Package laws holds the house rules that a machine can check: which package may import which, how
// long files and functions may be, and what no package may contain. It has tests only.
package laws
