// Package keep runs policies: one loop over one list-watch calls each policy and commits its plan.
package keep
