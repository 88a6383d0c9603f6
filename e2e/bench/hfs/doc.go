// Package hfs is the experiment of the paper on hierarchical fair sharing: three users of two
// teams, with more work than fits, join at 0, 60 and 120 s, and it ends at 180 s.
package hfs
