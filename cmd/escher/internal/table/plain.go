package table

import (
	"fmt"
	"strings"
	"unicode"
)

// Plain returns a text that a terminal shows and does not obey: it escapes control characters, and
// those that turn the direction of writing, as in JSON (\u001b). Line feeds and tabs stay. Texts
// from tasks go through it on their way to a terminal.
func Plain(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd") // a single byte may be obeyed, too
	if strings.IndexFunc(text, obeyed) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if obeyed(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Line is Plain, all in one line.
func Line(text string) string {
	return Plain(strings.NewReplacer("\n", " ", "\t", " ", "\r", " ").Replace(text))
}

// obeyed reports whether terminals obey a character rather than show it.
func obeyed(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}
