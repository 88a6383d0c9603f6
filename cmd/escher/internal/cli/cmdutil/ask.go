package cmdutil

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Ask asks a question, and reports whether the answer is yes. No answer means no.
func (f *Factory) Ask(question string) (yes bool, err error) {
	fmt.Fprintf(f.Err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(io.LimitReader(f.In, 64)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	text := strings.ToLower(strings.TrimSpace(answer))
	return text == "y" || text == "yes", nil
}
