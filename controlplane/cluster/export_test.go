package cluster

// MaskCompacted restricts the hashes of compacted tasks to some bits.
func (v *View) MaskCompacted(mask uint64) { v.compacted.Mask = mask }
