package image

import (
	"encoding/json"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/escher-sched/escher/types"
)

// CheckName is the name of the check of an image.
const CheckName = "image"

// The defaults of HEALTHCHECK in docker, for which authors of images write it.
const (
	checkEvery    = 30 * time.Second
	checkTimeout  = 30 * time.Second
	checkFailures = 3
)

// Check returns the HEALTHCHECK of an image, from its configuration as docker writes it; nil means
// that it has none. Numbers out of range are replaced by the nearest ones: the owner of a task
// cannot change them.
func Check(config []byte) *types.Check {
	var image struct{ Config v1.Config }
	if json.Unmarshal(config, &image) != nil || image.Config.Healthcheck == nil {
		return nil
	}
	h := image.Config.Healthcheck
	command := commandOf(h.Test, image.Config.Shell)
	if len(command) == 0 || command[0] == "" || len(strings.Join(command, " ")) > types.MaxCheckWords {
		return nil
	}
	within := func(d, otherwise, least time.Duration) time.Duration {
		if d == 0 {
			d = otherwise
		}
		return min(max(d, least), types.MaxDuration)
	}
	c := &types.Check{
		Name: CheckName, Exec: command,
		Every: within(h.Interval, checkEvery, types.MinCheckEvery), Timeout: within(h.Timeout, checkTimeout, time.Millisecond),
		StartPeriod: within(h.StartPeriod, 0, 0), Failures: checkFailures, Then: types.ThenReport,
	}
	if h.Retries > 0 {
		c.Failures = min(h.Retries, types.MaxCheckCount)
	}
	return c
}

// commandOf returns the command of a HEALTHCHECK; empty means none.
func commandOf(test, shell []string) []string {
	if len(test) < 2 {
		return nil // NONE, or that of the image below it, which a builder has copied
	}
	switch test[0] {
	case "CMD":
		return test[1:]
	case "CMD-SHELL":
		if len(shell) == 0 {
			shell = []string{"/bin/sh", "-c"}
		}
		return append(shell[:len(shell):len(shell)], test[1])
	}
	return nil
}
