package controlplane

import "context"

// Scan reads a whole range at one revision, which it returns: the requested one, or the newest. It
// calls take with one part after the other, in the order of keys; take owns the part. Scan stops at
// and returns an error of take. After another error, the parts taken existed at an unknown
// revision. opts.Limit bounds the keys of a page; 0 means the default of the store. A store with a
// method Scan reads the range by it, which is faster than pages.
func Scan(ctx context.Context, s Store, opts ListOptions, take func([]KV) error) (revision int64, err error) {
	fast, ok := s.(interface {
		Scan(ctx context.Context, opts ListOptions, take func([]KV) error) (revision int64, err error)
	})
	if ok {
		return fast.Scan(ctx, opts, take)
	}
	return ScanPages(ctx, s, opts, take)
}

// The default page sizes. etcd counts all keys from a page to the end of the range, so many small
// pages are expensive.
const (
	firstPage = 1000
	maxPage   = 100_000
	pageBytes = 4 << 20
)

// ScanPages implements Scan with Store.List alone.
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

// nextPage returns the number of keys that fill pageBytes, if they are like those of the last page.
func nextPage(last []KV) int {
	size := 0
	for _, kv := range last {
		size += len(kv.Key) + len(kv.Value) + 16
	}
	return min(max(len(last)*pageBytes/size, 1), 8*len(last), maxPage)
}

// ListAll reads a whole range at one revision, which it returns: the requested one, or the newest.
// It ignores Limit and After.
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
