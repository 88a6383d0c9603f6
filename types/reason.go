package types

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// cutMark ends a reason of which the rest was left out.
const cutMark = "…"

// CutReason returns a reason as it is stored: its first MaxReason bytes at most, as
// valid UTF-8. A mark ends a reason that was cut.
func CutReason(text string) string {
	if len(text) <= MaxReason {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:MaxReason-len(cutMark)], "") + cutMark
}

// reason visits the string field of a reason. It is cut when it is written, and also
// when it is read: another writer may have stored more.
func reason(w *wire, num protowire.Number, v *string) {
	if w.decoding {
		text(w, num, v)
		*v = CutReason(*v)
		return
	}
	short := CutReason(*v)
	text(w, num, &short)
}
