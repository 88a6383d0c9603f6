package history

import (
	"errors"
	"net/url"
	"strconv"
	"testing"
	"time"
)

// TestFurther reads what comes after a request, over pages, each once and in order.
func TestFurther(t *testing.T) {
	const size = 3
	begin := time.Unix(0, 0)
	// read answers with pages of the requests 1 to n, the latest first.
	read := func(n int64) func(url.Values) (requestPage, error) {
		return func(query url.Values) (page requestPage, err error) {
			from := n
			if after := query.Get("after"); after != "" {
				next, err := strconv.ParseInt(after, 10, 64)
				if err != nil {
					return page, err
				}
				from = next - 1
			}
			for id := from; id > 0 && len(page.Items) < size; id-- {
				page.Items = append(page.Items, requestRow{ID: id, At: begin.Add(time.Duration(id))})
			}
			if len(page.Items) == size {
				page.Next = strconv.FormatInt(page.Items[size-1].ID, 10)
			}
			return page, nil
		}
	}
	for name, c := range map[string]struct {
		n, last, first int64
		want           int
	}{
		"none":                {0, 0, 0, 0},
		"the latest":          {8, 0, 6, 3},
		"nothing new":         {8, 8, 0, 0},
		"one more":            {9, 8, 9, 1},
		"many more":           {20, 8, 9, 12},
		"to the end of pages": {9, 6, 7, 3},
	} {
		query := url.Values{"limit": {"3"}}
		rows, err := further(query, c.last, read(c.n))
		if err != nil || len(rows) != c.want || c.want > 0 && rows[0].ID != c.first || query.Get("after") != "" {
			t.Errorf("%s: %+v, %v", name, rows, err)
		}
		for i := 1; i < len(rows); i++ {
			if rows[i].ID != rows[i-1].ID+1 {
				t.Errorf("%s: %d after %d", name, rows[i].ID, rows[i-1].ID)
			}
		}
	}
	away := errors.New("away")
	if rows, err := further(url.Values{}, 5, func(url.Values) (requestPage, error) { return requestPage{}, away }); !errors.Is(err, away) || rows != nil {
		t.Errorf("%v, %v", rows, err)
	}
}
