// Package keep runs policies: one loop over one list-watch asks each policy what to do, and does it.
package keep
