package workload

import (
	"compress/gzip"
	_ "embed" // for the table
	"io"
	"strings"

	"github.com/escher-sched/escher/types"
)

// philly/SOURCE.md says where the table is from.
//
//go:embed philly/busy7d.csv.gz
var phillyTable string

// Training is a job of the Philly trace.
type Training struct {
	// Submit is the time of its submission, in seconds from the beginning of the week, and Runs its
	// run time, in seconds.
	Submit, Runs float64
	// GPUs is the number of its devices, on as few nodes of eight as possible.
	GPUs int
	// Tenant is its tenant.
	Tenant string
}

// PhillyWeek is the duration of Philly's submissions, in seconds.
const PhillyWeek = 7 * 24 * 3600

// Philly returns the jobs of the busiest week of the Philly trace, by time: 14,171 jobs of 11
// tenants.
func Philly() (jobs []Training, err error) {
	r, err := gzip.NewReader(strings.NewReader(phillyTable))
	if err != nil {
		return nil, types.Errorf(types.Internal, "read the table of Philly: %w", err)
	}
	table, err := io.ReadAll(r)
	if err != nil {
		return nil, types.Errorf(types.Internal, "read the table of Philly: %w", err)
	}
	err = eachRow(string(table), 4, func(f []string, n []int64) {
		jobs = append(jobs, Training{Submit: float64(n[0]), Runs: float64(n[1]), GPUs: int(n[2]), Tenant: f[3]})
	})
	return jobs, err
}

// Tasks returns the devices of each task of the job: eight each, and the rest in the last.
func (t Training) Tasks() (devices []int) {
	for left := t.GPUs; left > 0; left -= 8 {
		devices = append(devices, min(left, 8))
	}
	return devices
}
