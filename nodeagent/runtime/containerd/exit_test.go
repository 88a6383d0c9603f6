package containerd

import (
	"testing"

	cgroup1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	cgroup2 "github.com/containerd/cgroups/v3/cgroup2/stats"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// TestOOMKills reads the counter from containerd's answers for both versions of cgroups, of which a
// machine has one.
func TestOOMKills(t *testing.T) {
	answer := func(url string, m proto.Message) *anypb.Any {
		value, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return &anypb.Any{TypeUrl: url, Value: value}
	}
	for name, test := range map[string]struct {
		data *anypb.Any
		want uint64
	}{
		"v1":        {answer(metricsV1, &cgroup1.Metrics{MemoryOomControl: &cgroup1.MemoryOomControl{OomKill: 2, UnderOom: 1}}), 2},
		"v1, none":  {answer(metricsV1, &cgroup1.Metrics{}), 0},
		"v2":        {answer(metricsV2, &cgroup2.Metrics{MemoryEvents: &cgroup2.MemoryEvents{Oom: 5, OomKill: 3}}), 3},
		"v2, none":  {answer(metricsV2, &cgroup2.Metrics{MemoryEvents: &cgroup2.MemoryEvents{Max: 7}}), 0},
		"unknown":   {answer("io.containerd.cgroups.v3.Metrics", &cgroup2.Metrics{}), 0},
		"no answer": {nil, 0},
	} {
		if got := oomKillsOf(test.data); got != test.want {
			t.Errorf("%s: %d killed, want %d", name, got, test.want)
		}
	}
}
