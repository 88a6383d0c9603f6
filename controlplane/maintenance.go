package controlplane

import "context"

// Usage describes how full a database is.
type Usage struct {
	// Revision is the revision of the store.
	Revision int64
	// InUse is the size of the data, history included, and File the size on disk, both in bytes.
	// The file never shrinks: the store reuses its free pages first.
	InUse, File int64
	// Quota is the largest size of the file in bytes. Beyond it the store refuses everything but
	// deletions. 0 means unknown.
	Quota int64
	// Alarm reports whether the store refuses writes: see ErrFull.
	Alarm bool
}

// Share returns the fraction of the quota in use; 0 if the quota is unknown.
func (u Usage) Share() float64 {
	if u.Quota <= 0 {
		return 0
	}
	return float64(u.InUse) / float64(u.Quota)
}

// roomy is the percentage of the quota below which a file accepts further writes.
const roomy = 98

// Roomy reports whether the file has free space for further writes. In a full file the next write
// raises a cleared alarm again.
func (u Usage) Roomy() bool { return u.Quota <= 0 || u.File < u.Quota/100*roomy }

// Maintenance is the part of a store that the collector needs besides reads and writes.
type Maintenance interface {
	// Usage reports how full the store is.
	Usage(ctx context.Context) (Usage, error)
	// Compact drops the history before revision; nil if that is already gone.
	Compact(ctx context.Context, revision int64) error
	// Defragment rewrites the database without its free pages. If that made space, it lets the
	// store accept writes again; otherwise the error is Precondition with ErrFull. A member answers
	// no request meanwhile.
	Defragment(ctx context.Context) error
}
