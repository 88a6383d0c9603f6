package controlplane

import "context"

// Usage is how full a database is.
type Usage struct {
	// Revision of the store.
	Revision int64
	// InUse is what it holds, history included, and File what it takes on disk,
	// in bytes. The file does not shrink; what is free in it is used first.
	InUse, File int64
	// Quota is how large the file may get; then the store refuses what is not a
	// deletion. 0 means unknown.
	Quota int64
	// Alarm reports whether the store has begun to refuse: see ErrFull.
	Alarm bool
}

// Share returns the part of the quota that is in use; 0 when it is not known.
func (u Usage) Share() float64 {
	if u.Quota <= 0 {
		return 0
	}
	return float64(u.InUse) / float64(u.Quota)
}

// roomy is the share of the quota, in percent, below which a file has room.
const roomy = 98

// Roomy reports whether the file has room for more: an alarm that is ended in a file without
// room is raised again by the next write.
func (u Usage) Roomy() bool { return u.Quota <= 0 || u.File < u.Quota/100*roomy }

// Maintenance is what the collector needs of a store besides reading and writing.
type Maintenance interface {
	// Usage says how full the store is.
	Usage(ctx context.Context) (Usage, error)
	// Compact forgets what was before revision; nil when that is done already.
	Compact(ctx context.Context, revision int64) error
	// Defragment rewrites the database without what is free in it, and lets it
	// accept writes again if that made room; else the error is Precondition with
	// ErrFull. A member answers nothing meanwhile.
	Defragment(ctx context.Context) error
}
