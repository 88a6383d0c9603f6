package cluster

// MaskFolded has only some bits of the hashes of folded tasks count.
func (v *View) MaskFolded(mask uint64) { v.folded.Mask = mask }
