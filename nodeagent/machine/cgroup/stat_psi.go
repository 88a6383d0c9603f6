package cgroup

import (
	"bytes"
	"strconv"
	"time"
)

// parseStall parses a pressure file. It has a line for "some" and, except for the processors of old
// kernels, one for "full":
//
//	some avg10=0.00 avg60=0.00 avg300=0.00 total=0
//
// A nil result means that the file has no data.
func parseStall(text []byte) *Stall {
	var s Stall
	known := false
	for line := range bytes.Lines(text) {
		words := bytes.Fields(line)
		if len(words) == 0 {
			continue
		}
		share, total := stallOf(words[1:])
		switch string(words[0]) {
		case "some":
			known = true
			s.Some10, s.Some = share, total
		case "full":
			s.Full10, s.Full = share, total
		}
	}
	if !known {
		return nil
	}
	return &s
}

// stallOf parses one line.
func stallOf(words [][]byte) (percent10 float64, total time.Duration) {
	for _, word := range words {
		name, value, _ := bytes.Cut(word, []byte("="))
		switch string(name) {
		case "avg10":
			percent10, _ = strconv.ParseFloat(string(value), 64) // An invalid number counts as 0.
		case "total":
			us, _ := numberOf(value)
			total = time.Duration(us) * time.Microsecond
		}
	}
	return percent10, total
}
