package types

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/escher-sched/escher/types/wire"
)

// cutMark ends a shortened reason.
const cutMark = "…"

// CutReason returns a reason in its stored form: valid UTF-8 of at most MaxReason bytes, with a
// mark at the end if it was shortened.
func CutReason(text string) string { return Cut(text, MaxReason) }

// Cut returns a text as valid UTF-8 of at most limit bytes, with a mark at the end if it was
// shortened.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:limit-len(cutMark)], "") + cutMark
}

// reason visits the string field of a reason. It shortens on writing and on reading, because
// another writer may have stored more.
func reason(w *wire.Pass, num protowire.Number, v *string) {
	if w.Decoding() {
		wire.Text(w, num, v)
		*v = CutReason(*v)
		return
	}
	short := CutReason(*v)
	wire.Text(w, num, &short)
}
