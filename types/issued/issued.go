// Package issued names the users and groups of an issuer of OpenID Connect. Their texts, such as
// oidc:alice@example.org, have characters that names of Escher lack. Each text with a colon has one name, and
// each name one text; names that an administrator chooses have no colon, so that no text is one of them.
package issued

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Name returns the name of a user or group: a text without a colon as it is; of others, letters, digits and
// "-", and each other byte as "_" with two hexadecimal digits. So oidc:alice@example.org is
// oidc_3aalice_40example_2eorg. It has no dots, which separate the parts of names of shares.
func Name(text string) string {
	if !strings.Contains(text, ":") {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; isPlain(c) && (c != '-' || i < len(text)-1) { // no name ends with "-"
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// Text returns the text whose name is given, and other names as they are.
func Text(name string) string {
	var b strings.Builder
	for rest := name; rest != ""; {
		plain, after, escaped := strings.Cut(rest, "_")
		b.WriteString(plain)
		if rest = after; !escaped {
			break
		}
		if len(rest) < 2 {
			return name
		}
		c, err := strconv.ParseUint(rest[:2], 16, 8)
		if err != nil {
			return name
		}
		b.WriteByte(byte(c))
		rest = rest[2:]
	}
	if text := b.String(); strings.Contains(text, ":") && IsPrintable(text) && Name(text) == name {
		return text
	}
	return name
}

// Subject returns a subject with the name for its text: user:oidc:bob is user:oidc_3abob. A text without a kind
// is that of a name.
func Subject(text string) string {
	kind, rest, _ := strings.Cut(text, ":")
	if !IsKind(kind) {
		return Name(text)
	}
	return kind + ":" + Name(rest)
}

// IsKind reports whether a text is a kind of subjects.
func IsKind(text string) bool {
	switch text {
	case types.UserSubject, types.GroupSubject, types.ServiceSubject, types.NodeSubject:
		return true
	}
	return false
}

// SubjectText returns a subject with the text for its name.
func SubjectText(subject string) string {
	kind, name, found := strings.Cut(subject, ":")
	if !found {
		return Text(subject)
	}
	return kind + ":" + Text(name)
}

// Each returns the result of a function for each text of a list.
func Each(all []string, of func(string) string) []string {
	var out []string
	for _, text := range all {
		out = append(out, of(text))
	}
	return out
}

// IsPrintable reports whether a text has printable characters of ASCII alone, and no space at its ends.
func IsPrintable(text string) bool {
	return strings.TrimSpace(text) == text && strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// Validate checks the text of a user or group of an issuer. Invalid: it is empty, has other characters than
// printable ones of ASCII, or its name is too long.
func Validate(field, prefix, text string) error {
	switch name := Name(prefix + text); {
	case text == "":
		return types.Errorf(types.Invalid, "%s: is empty: have the issuer send a name", field)
	case !IsPrintable(text):
		return types.Errorf(types.Invalid, "%s: %.80q has characters that are not printable ones of ASCII: have the issuer send another name", field, text)
	case len(name) > types.MaxName:
		return types.Errorf(types.Invalid, "%s: %.80q: its name %.80s has %d bytes, and at most %d are allowed: have the issuer send a shorter one", field, text, name, len(name), types.MaxName)
	default:
		return types.ValidateName(field, name)
	}
}

// isPlain reports whether a byte stands for itself in a name.
func isPlain(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-'
}
