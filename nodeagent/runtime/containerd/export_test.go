package containerd

// Wanting returns how many callers wait for a pull.
func Wanting(r *Runtime, ref string) int {
	p := r.conf.Pulls
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.under[ref]; one != nil {
		return one.users
	}
	return 0
}
