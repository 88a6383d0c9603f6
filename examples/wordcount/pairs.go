package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/escher-sched/escher/api/escher"
)

// pair is how long counting took, in seconds.
type pair struct {
	Named float64 `json:"named_s"`
	Near  float64 `json:"near_s"`
}

// comparePairs counts repeatedly, in turn with mappers on named nodes and with mappers where the
// data is, which is the same. It prints a pair of times a line, without the first one.
func comparePairs(ctx context.Context, at places, pairs int) error {
	return withCounter(ctx, at, func(c *counter, want map[string]int) error {
		named := func(chunk int) escher.Requests { return one("node/" + c.nodes[chunk%len(c.nodes)]) }
		for i := range pairs + 1 {
			var p pair
			ways := []func() error{
				func() (err error) {
					p.Named, err = c.allLocal(ctx, fmt.Sprintf("named-%d", i), named, want)
					return err
				},
				func() (err error) { p.Near, err = c.allLocal(ctx, fmt.Sprintf("near-%d", i), near, want); return err },
			}
			for turn := range ways {
				if err := ways[(i+turn)%len(ways)](); err != nil {
					return err
				}
			}
			if i == 0 { // to warm up
				continue
			}
			if err := json.NewEncoder(os.Stdout).Encode(p); err != nil {
				return err
			}
		}
		return nil
	})
}

// allLocal counts once, and returns how many seconds that took. A chunk that was not read locally
// is an error.
func (c *counter) allLocal(ctx context.Context, run string, placed func(chunk int) escher.Requests, want map[string]int) (float64, error) {
	local, took, err := c.mapReduce(ctx, run, placed, want)
	if err == nil && local != c.chunks {
		err = fmt.Errorf("run %s: %d of %d chunks were read locally", run, local, c.chunks)
	}
	return took.Seconds(), err
}
