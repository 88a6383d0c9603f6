package tasklog

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Stream names the origin of a piece of output.
type Stream byte

// The streams. Their numbers are stored, and part of the node API.
const (
	// Unknown is output without a mark: an older logger wrote it.
	Unknown Stream = iota
	Stdout
	Stderr
	// Note is a line of the logger itself about lost output.
	Note
)

// Streams returns the names of the streams of a container.
func Streams() map[string]Stream { return map[string]Stream{"stdout": Stdout, "stderr": Stderr} }

// Piece is a piece of a log.
type Piece struct {
	Stream Stream
	// At is when the logger read the piece; the zero value means unknown.
	At   time.Time
	Text []byte
	// offset is its position in its file.
	offset int64
}

// A log has the plain bytes of both streams, in the order in which the logger read them. A file
// next to it has the marks: for each piece its offset, length, stream and time. Programs that know
// no marks read the log as before. Bytes without a mark are of Unknown origin: an older logger
// wrote them, or the disk was full. So neither file has to be repaired.
//
// The first record of the file has markMagic and says to which file the marks belong, since a
// rotation renames both files one after the other. All records have the same size, so that a reader
// finds the mark of an offset by bisection. A mark is written before its bytes.

// mark says from where and when a piece of a log came.
type mark struct {
	offset, length int64
	// at is a Unix time in nanoseconds.
	at     int64
	stream Stream
}

const (
	// recordBytes is the size of a record: the time, then offset, length and stream in one word.
	recordBytes = 16
	lengthBits  = 22
	streamBits  = 2
	// markMagic begins a file of marks. It has the version of the format.
	markMagic = "escmark1"
	// sameTime is how much later a piece of the same stream may come to share a mark, if both are
	// written at once.
	sameTime = time.Millisecond
)

// markLimit is the end of the part of a log that can have marks.
const markLimit = 1 << (64 - lengthBits - streamBits)

// marksPath returns the path of the marks of a log.
func marksPath(path string) string { return path + ".marks" }

// Files returns the paths of all files of a log, which need not exist.
func Files(path string) []string {
	return []string{path, marksPath(path), Previous(path), marksPath(Previous(path))}
}

// PathOf returns the path of the log to which a file belongs.
func PathOf(file string) string {
	return strings.TrimSuffix(strings.TrimSuffix(file, marksPath("")), Previous(""))
}

// Truncate empties a log that no logger has open.
func Truncate(path string) {
	// Neither file needs to exist.
	_ = os.Remove(marksPath(path))
	_ = os.Truncate(path, 0)
}

// append appends the record of a mark.
func (m mark) append(to []byte) []byte {
	to = binary.LittleEndian.AppendUint64(to, uint64(m.at))
	return binary.LittleEndian.AppendUint64(to, (uint64(m.offset)<<lengthBits|uint64(m.length))<<streamBits|uint64(m.stream))
}

// parseMark is the inverse of append.
func parseMark(record []byte) mark {
	word := binary.LittleEndian.Uint64(record[8:])
	return mark{
		offset: int64(word >> (lengthBits + streamBits)), length: int64(word >> streamBits & (1<<lengthBits - 1)),
		at: int64(binary.LittleEndian.Uint64(record)), stream: Stream(word & (1<<streamBits - 1)),
	}
}

// markHead returns the first record of the marks of an open log.
func markHead(log *os.File) []byte {
	h := fnv.New64a()
	_, _ = io.WriteString(h, identity(log)) // a hash takes everything
	return h.Sum([]byte(markMagic))
}

// openMarks opens the marks of an open log for writing; nil if that is not possible. It empties
// those of another file.
func openMarks(path string, log *os.File) (marks file, size int64) {
	f, err := os.OpenFile(marksPath(path), os.O_RDWR|os.O_APPEND|os.O_CREATE, fileMode)
	if err != nil {
		return nil, 0
	}
	head, found := markHead(log), make([]byte, recordBytes)
	if _, err := f.ReadAt(found, 0); err == nil && slices.Equal(head, found) {
		if info, err := f.Stat(); err == nil {
			size = info.Size() - info.Size()%recordBytes // A full disk may have cut the last record.
		}
	}
	if err := f.Truncate(size); err == nil && size == 0 {
		var n int
		n, err = f.Write(head)
		size = int64(n)
		if err == nil {
			return f, size
		}
	} else if err == nil {
		return f, size
	}
	_ = f.Close() // An incomplete head belongs to no log.
	return nil, 0
}

// markReader finds the marks of an open log. It is for ascending offsets.
type markReader struct {
	file *os.File
	// current is the last mark that begins at or before the offset, next the one after it.
	current, next mark
	// at is the position of the record after next in the file. more reports whether there is a next.
	at   int64
	more bool
	// records are read and not yet parsed.
	records, buffer []byte
}

// readMarks returns the marks of a log from an offset on; nil if it has none yet.
func readMarks(path string, log *os.File, offset int64) *markReader {
	head, found := markHead(log), make([]byte, recordBytes)
	// First the present ones: a rotation may rename them now.
	for _, path := range []string{marksPath(path), marksPath(Previous(path))} {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if _, err := f.ReadAt(found, 0); err == nil && slices.Equal(head, found) {
			m := &markReader{file: f, buffer: make([]byte, 256*recordBytes)}
			m.seek(func(m mark) bool { return m.offset > offset })
			return m
		}
		f.Close()
	}
	return nil
}

// close closes the file. There may be none.
func (m *markReader) close() {
	if m != nil {
		m.file.Close()
	}
}

// seek continues at the mark before the first for which after holds. It holds for all later marks.
func (m *markReader) seek(after func(mark) bool) {
	info, err := m.file.Stat()
	if err != nil {
		return
	}
	record := make([]byte, recordBytes)
	low, high := int64(1), info.Size()/recordBytes
	for low < high {
		middle := (low + high) / 2
		if _, err := m.file.ReadAt(record, middle*recordBytes); err != nil || after(parseMark(record)) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	m.current, m.more, m.records = mark{}, false, nil
	m.at = max(1, low-1) * recordBytes
}

// advance reads the next mark; false if there is none yet.
func (m *markReader) advance() bool {
	if m.more {
		return true
	}
	if len(m.records) < recordBytes {
		n, err := m.file.ReadAt(m.buffer, m.at)
		if err != nil && err != io.EOF || n < recordBytes {
			return false
		}
		m.records = m.buffer[:n-n%recordBytes]
	}
	m.next, m.more = parseMark(m.records), true
	m.records = m.records[recordBytes:]
	m.at += recordBytes
	return true
}

// of returns the mark of an offset, and how many bytes from there on it is for, at most n. Its
// stream may be Unknown.
func (m *markReader) of(offset, n int64) (mark, int64) {
	if m == nil {
		return mark{}, n
	}
	for m.advance() && m.next.offset <= offset {
		m.current, m.more = m.next, false
	}
	if m.more {
		n = min(n, m.next.offset-offset)
	}
	if end := m.current.offset + m.current.length; offset < end {
		return m.current, min(n, end-offset)
	}
	return mark{}, n
}

// first returns the offset of the first piece that was read at a time or later; the size of the log
// if there is none. Clocks may be set back, so this looks at each mark.
func (m *markReader) first(since time.Time, size int64) int64 {
	for m.advance() {
		if m.next.at >= since.UnixNano() {
			return m.next.offset
		}
		m.more = false
	}
	return size
}
