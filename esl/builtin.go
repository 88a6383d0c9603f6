package esl

// Builtin returns the policies of this package.
func Builtin() Kinds {
	return Kinds{}.With(
		func() Policy { return Ageing{} },
		func() Policy { return Apart{} },
		func() Policy { return Balance{} },
		func() Policy { return Balanced{} },
		func() Policy { return Colocate{} },
		func() Policy { return ElasticBalance{} },
		func() Policy { return Elastic{} },
		func() Policy { return Migrate{} },
		func() Policy { return Near{} },
		func() Policy { return Objective{} },
		func() Policy { return Pack{} },
		func() Policy { return Packed{} },
		func() Policy { return Placed{} },
		func() Policy { return Preempt{} },
		func() Policy { return Prefer{} },
		func() Policy { return Stay{} },
		func() Policy { return Spread{} },
		func() Policy { return Gang{} },
		func() Policy { return After{} },
		func() Policy { return Barrier{} },
		func() Policy { return Semaphore{} },
		func() Policy { return Holds{} },
		func() Policy { return Queue{} },
		func() Policy { return Queued{} },
		func() Policy { return FairQueue{} },
		func() Policy { return Flow{} },
		func() Policy { return FairShare{} },
		func() Policy { return Share{} },
	)
}
