package devices

import (
	"fmt"
	"strconv"
	"strings"
)

// parseTopo parses the matrix of nvidia-smi topo -m: which of n GPUs, by their number, are
// connected by NVLink (NV1, NV18: bonded links). It ignores other columns, such as those of network
// cards. An unknown format results in no links.
//
//	        GPU0    GPU1    NIC0    CPU Affinity
//	GPU0     X      NV12    PXB     0-31
//	GPU1    NV12     X      NODE    0-31
func parseTopo(text string, n int) [][]bool {
	linked := make([][]bool, n)
	for i := range linked {
		linked[i] = make([]bool, n)
	}
	var columns []int
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(stripColours(line))
		if len(words) == 0 {
			continue
		}
		if columns == nil {
			columns = gpuColumns(words)
			continue
		}
		row, ok := gpuNumber(words[0])
		if !ok || row >= n || len(words) <= len(columns) {
			continue
		}
		for i, column := range columns {
			if column < n && column != row && isNVLink(words[1+i]) {
				linked[row][column] = true
			}
		}
	}
	return linked
}

// gpuColumns returns the GPUs in the head of the matrix; nil if the line is not the head.
func gpuColumns(words []string) []int {
	var columns []int
	for _, word := range words {
		number, ok := gpuNumber(word)
		if !ok {
			break // GPUs come first.
		}
		columns = append(columns, number)
	}
	return columns
}

func gpuNumber(word string) (int, bool) {
	digits, ok := strings.CutPrefix(word, "GPU")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0
}

func isNVLink(word string) bool {
	digits, ok := strings.CutPrefix(word, "NV")
	n, err := strconv.Atoi(digits)
	return ok && err == nil && n > 0
}

// stripColours removes the escape sequences that underline the head of the matrix.
func stripColours(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		if line[i] != 0x1b {
			b.WriteByte(line[i])
			continue
		}
		for i+1 < len(line) && line[i] != 'm' {
			i++
		}
	}
	return b.String()
}

// linksOf names the links of each device. Devices that all reach each other, and no others, share
// one link, as with an NVSwitch or a bridge of two. Otherwise there is a link for each pair.
func linksOf(linked [][]bool) [][]string {
	links := make([][]string, len(linked))
	both := func(a, b int) bool { return linked[a][b] && linked[b][a] }
	done := make([]bool, len(linked))
	for i := range linked {
		if done[i] {
			continue
		}
		group := reached(i, len(linked), both)
		for _, a := range group {
			done[a] = true
		}
		if len(group) > 1 && complete(group, both) {
			for _, a := range group {
				links[a] = append(links[a], fmt.Sprintf("nvlink%d", i))
			}
			continue
		}
		for x, a := range group {
			for _, b := range group[x+1:] {
				if both(a, b) {
					name := fmt.Sprintf("nvlink%d-%d", a, b)
					links[a], links[b] = append(links[a], name), append(links[b], name)
				}
			}
		}
	}
	return links
}

// reached returns the devices reachable from i over links, including i, in order.
func reached(i, n int, linked func(a, b int) bool) []int {
	in := make([]bool, n)
	in[i] = true
	for again := true; again; {
		again = false
		for a := range n {
			for b := range n {
				if in[a] && !in[b] && linked(a, b) {
					in[b], again = true, true
				}
			}
		}
	}
	var group []int
	for a, is := range in {
		if is {
			group = append(group, a)
		}
	}
	return group
}

func complete(group []int, linked func(a, b int) bool) bool {
	for x, a := range group {
		for _, b := range group[x+1:] {
			if !linked(a, b) {
				return false
			}
		}
	}
	return true
}
