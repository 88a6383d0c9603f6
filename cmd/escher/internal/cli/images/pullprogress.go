package images

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
)

// PullText formats the progress of a pull, empty if unknown.
func PullText(p nodeapi.Pull) string {
	switch {
	case p.Trouble != "":
		return "trying again: " + p.Trouble
	case p.Unpacking:
		return "unpacking " + humanize.IBytes(uint64(max(0, p.Total)))
	case p.Total > 0:
		return fmt.Sprintf("pulled %s of %s", humanize.IBytes(uint64(max(0, p.Done))), humanize.IBytes(uint64(p.Total)))
	}
	return ""
}
