package scheduler

type accumulator struct{ wake int64 }

func (c *Core) accumulate() {}
