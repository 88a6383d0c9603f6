package devices

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// xidQuiet is how long a GPU is unhealthy after its driver logged a possible hardware error. By
// then the driver itself reports lasting faults: see health.
const xidQuiet = 10 * time.Minute

// xidText describes the errors that no program causes, by their number: see NVIDIA's "XID Errors".
// It omits errors of programs, such as 13, 31 and 43.
func xidText(code int) string {
	switch code {
	case 48:
		return "an uncorrectable memory error"
	case 62, 119, 120:
		return "its firmware does not answer"
	case 64:
		return "a bad row or page of its memory could not be replaced"
	case 74:
		return "an error of its NVLink"
	case 79:
		return "it has fallen off the bus"
	case 92:
		return "many corrected memory errors"
	case 95:
		return "an uncontained memory error"
	case 140:
		return "an uncorrectable error that was not recovered"
	case 143:
		return "it could not be started"
	}
	return ""
}

// xids returns the latest recent error of each GPU in the kernel's log, by address.
//
//	4,1207,81520344412,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=2412, name=python3, GPU has fallen off the bus.
func (f *Finder) xids() map[string]string {
	line := regexp.MustCompile(`^\d+,\d+,(\d+),[^;]*;NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)`)
	uptime, err := strconv.ParseFloat(strings.SplitN(readLine(f.cfg.path("proc/uptime"))+" ", " ", 2)[0], 64)
	if err != nil {
		return nil
	}
	since := time.Duration(uptime*float64(time.Second)) - xidQuiet
	out := make(map[string]string)
	f.eachKernelLine(func(text string) {
		m := line.FindStringSubmatch(text)
		if m == nil {
			return
		}
		micros, err := strconv.ParseInt(m[1], 10, 64)
		code, err2 := strconv.Atoi(m[3])
		if err != nil || err2 != nil || time.Duration(micros)*time.Microsecond < since {
			return
		}
		if what := xidText(code); what != "" {
			out[busOf(m[2])] = fmt.Sprintf("Xid %d: %s", code, what)
		}
	})
	return out
}

// eachKernelLine calls f for each message in the kernel's log. One read of /dev/kmsg returns one
// message.
func (f *Finder) eachKernelLine(each func(string)) {
	file, err := os.OpenFile(f.cfg.path("dev/kmsg"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return // It requires root.
	}
	defer file.Close()
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	// Read without the runtime's poller: it would treat EAGAIN not as the end, but wait for the
	// next message.
	_ = raw.Read(func(fd uintptr) bool {
		buf := make([]byte, 64<<10)
		for {
			n, err := syscall.Read(int(fd), buf)
			switch {
			case errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EINTR):
				continue // The next message is no longer kept; continue after it.
			case err != nil || n <= 0:
				return true
			}
			lines := bufio.NewScanner(strings.NewReader(string(buf[:n])))
			for lines.Scan() {
				each(lines.Text())
			}
		}
	})
}
