package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sayings groups sentences that differ only in numbers.
type sayings struct{ groups []*saying }

// saying is such a group: the number of sentences, the words of one, and the least and the largest
// number at each place.
type saying struct {
	count       int
	like        string
	words       []string
	least, most []number
}

// number is a number or duration as written.
type number struct {
	value float64
	text  string
}

// saidAtMostLines is the most lines of sentences.
const saidAtMostLines = 10

// Add adds a sentence.
func (s *sayings) Add(text string) {
	words, numbers := apart(text)
	like := strings.Join(words, " ")
	at := slices.IndexFunc(s.groups, func(g *saying) bool { return g.like == like })
	if at < 0 {
		s.groups = append(s.groups, &saying{count: 1, like: like, words: words, least: numbers, most: slices.Clone(numbers)})
		return
	}
	g := s.groups[at]
	g.count++
	for i, n := range numbers {
		if n.value < g.least[i].value {
			g.least[i] = n
		}
		if n.value > g.most[i].value {
			g.most[i] = n
		}
	}
}

// Lines returns a line for each group, the most frequent first, and one that counts the rest.
func (s *sayings) Lines() []string {
	slices.SortStableFunc(s.groups, func(a, b *saying) int { return b.count - a.count })
	var out []string
	for i, g := range s.groups {
		if i == saidAtMostLines {
			more := 0
			for _, rest := range s.groups[i:] {
				more += rest.count
			}
			return append(out, fmt.Sprintf("… and %d more", more))
		}
		out = append(out, g.Line())
	}
	return out
}

// Line is the sentence, with a range such as 3 to 14 for numbers that differ.
func (g *saying) Line() string {
	words, n := slices.Clone(g.words), 0
	for i, word := range words {
		if !strings.Contains(word, numberMark) {
			continue
		}
		text := g.least[n].text
		if g.most[n].value > g.least[n].value {
			text += " to " + g.most[n].text
		}
		words[i] = strings.Replace(word, numberMark, text, 1)
		n++
	}
	line := strings.Join(words, " ")
	if g.count > 1 {
		line = fmt.Sprintf("%d × %s", g.count, line)
	}
	return line
}

// numberMark replaces a number.
const numberMark = "\x00"

// apart splits a sentence into words, with marks for numbers, and the numbers.
func apart(text string) (words []string, numbers []number) {
	words = strings.Split(text, " ")
	for i, word := range words {
		bare := strings.Trim(word, ",;:.()")
		n := number{text: bare}
		value, err := strconv.ParseFloat(bare, 64)
		if n.value = value; err != nil {
			d, wrong := time.ParseDuration(bare)
			if n.value = d.Seconds(); wrong != nil {
				continue
			}
		}
		words[i] = strings.Replace(word, bare, numberMark, 1)
		numbers = append(numbers, n)
	}
	return words, numbers
}
