package types

import "testing"

// TestTokenIsAHeader checks that the token of a node can be sent to it.
func TestTokenIsAHeader(t *testing.T) {
	for text, valid := range map[string]bool{"": true, "aB3-_=./+": true, "a b": false, "a\n": false, "\x00": false, "\x7f": false, "é": false} {
		if err := (&Token{Token: text}).Validate(); (err == nil) != valid {
			t.Errorf("%q: %v", text, err)
		}
	}
}
