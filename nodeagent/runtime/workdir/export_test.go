package workdir

import "context"

// ScanAtMost is Scan with a lower limit of entries.
func ScanAtMost(ctx context.Context, dir string, maxEntries int) (*Tree, error) {
	return scan(ctx, dir, maxEntries)
}
