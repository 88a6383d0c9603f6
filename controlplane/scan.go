package controlplane

import "context"

// Scan reads a whole range, all at one revision, which it returns: the one asked for,
// or the newest. It calls take with one part after the other, in the order of keys;
// a part is take's to keep, and an error of take ends the scan, which returns it. What
// was taken before another error was there, at a revision that is not known. opts.Limit
// bounds the keys of a part where parts are asked for; 0 leaves that to the store. A store that
// has a method Scan reads the range by it: faster than page by page.
func Scan(ctx context.Context, s Store, opts ListOptions, take func([]KV) error) (revision int64, err error) {
	fast, ok := s.(interface {
		Scan(ctx context.Context, opts ListOptions, take func([]KV) error) (revision int64, err error)
	})
	if ok {
		return fast.Scan(ctx, opts, take)
	}
	return ScanPages(ctx, s, opts, take)
}

// The bounds of a page whose size nobody asked for: etcd counts, for each page, all
// keys from there to the end of the range, so that many small pages are expensive.
const (
	firstPage = 1000
	maxPage   = 100_000
	pageBytes = 4 << 20
)

// ScanPages is Scan by Store.List alone.
func ScanPages(ctx context.Context, s Store, opts ListOptions, take func([]KV) error) (revision int64, err error) {
	adapt := opts.Limit == 0
	if adapt {
		opts.Limit = firstPage
	}
	for {
		page, err := s.List(ctx, opts)
		if err != nil {
			return 0, err
		}
		if err := take(page.KVs); err != nil {
			return 0, err
		}
		if !page.More {
			return page.Revision, nil
		}
		opts.Revision, opts.After = page.Revision, page.KVs[len(page.KVs)-1].Key
		if adapt {
			opts.Limit = nextPage(page.KVs)
		}
	}
}

// nextPage returns how many keys like those of the last page have pageBytes.
func nextPage(last []KV) int {
	size := 0
	for _, kv := range last {
		size += len(kv.Key) + len(kv.Value) + 16
	}
	return min(max(len(last)*pageBytes/size, 1), 8*len(last), maxPage)
}

// ListAll reads a whole range, all at one revision: the one asked for, or the newest;
// it returns that too. Limit and After are ignored.
func ListAll(ctx context.Context, s Store, opts ListOptions) ([]KV, int64, error) {
	opts.Limit, opts.After = 0, ""
	var all []KV
	revision, err := Scan(ctx, s, opts, func(part []KV) error {
		all = append(all, part...)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return all, revision, nil
}
