package bench

import (
	"context"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

const (
	// rawInFlight is the number of puts in flight.
	rawInFlight = 64
	// putsInPair is the number of puts per median.
	putsInPair = 100
)

// rawPuts adds how many single puts of the size of a task etcd takes per second, and the duration
// of one with nothing else in flight.
func rawPuts(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
	value := types.Encode(1, &types.Task{Name: "bench", Job: "bench", Spec: rig.SpecDigest, Submitted: 1})
	put := func(i int) error {
		_, err := c.Store.Client().Put(ctx, rig.FloorRoot+"put/"+strconv.Itoa(i), string(value))
		return err
	}
	alone, err := times(putsInPair, put)
	if err != nil {
		return err
	}
	found["put_p50_ms"] = rig.Quantile(alone, 0.5)
	n := max(rawInFlight, min(20_000, c.Config.Tasks))
	var g errgroup.Group
	began := time.Now()
	for first := range rawInFlight {
		g.Go(func() error {
			for i := first; i < n; i += rawInFlight {
				if err := put(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = g.Wait()
	found["raw_puts"] = float64(n) / time.Since(began).Seconds()
	return err
}
