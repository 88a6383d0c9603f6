package run

import (
	"context"
	"fmt"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

const (
	// waitsQuietly is how long a task may wait before the reason is shown.
	waitsQuietly = 500 * time.Millisecond
	// askEvery is the least time between two questions why a task waits. A question that takes long
	// is asked less often: its answer takes at most one part in askShare of the time.
	askEvery = 2 * time.Second
	askShare = 20
	// sayEvery is the least time between two lines where no terminal replaces the last one.
	sayEvery = 10 * time.Second
	// narrowest is the least number of bytes of a line.
	narrowest = 20
)

// waits shows why tasks wait: on a terminal in one line that changes, elsewhere in a line for each
// new reason. A task that can never run on the present nodes has a whole line, with what to do.
type waits struct {
	f       *cmdutil.Factory
	client  *controlplane.Client
	console *cmdutil.Console
	board   *board
	tasks   int
	// terminal reports whether the line that changes is for a terminal.
	terminal bool
	// onlyNever shows only the tasks that can never run.
	onlyNever bool
	// never is the last text of a task that can never run.
	never string
	// said is the last text, at the time of its line.
	said string
	at   time.Time
}

// run shows it until ctx is done. An error leaves the line out: it is not what the command is for.
func (w *waits) run(ctx context.Context) {
	defer w.show("")
	pause := waitsQuietly
	for supervise.Pause(ctx, pause) == nil {
		pause = waitsQuietly
		id, waiting := w.board.waiting()
		if waiting == 0 {
			w.show("")
			continue
		}
		began := time.Now()
		answers, err := w.f.WhyWait(ctx, w.client, time.Now(), id)
		pause = max(askEvery, askShare*time.Since(began))
		if err != nil || answers[0].Why == "" {
			continue
		}
		begin := id + " waits: "
		if w.tasks > 1 {
			begin = fmt.Sprintf("%d of %d tasks wait; %s: ", waiting, w.tasks, id)
		}
		_, still := w.board.waiting()
		switch never := answers[0].Never; {
		case still == 0:
		case never != "":
			w.tell(begin + never + " It goes on waiting.")
		case !w.onlyNever:
			w.show(begin + answers[0].Why)
		}
	}
}

// tell prints once that a task can never run.
func (w *waits) tell(text string) {
	if text == w.never {
		return
	}
	w.never = text
	w.say("%s", text)
}

// say prints a line, in place of the line of Progress of a command that shows nothing else.
func (w *waits) say(format string, args ...any) {
	if _, _, terminal := w.f.TerminalSize(w.f.Err); terminal && w.onlyNever {
		fmt.Fprint(w.f.Err, cmdutil.EraseDown)
	}
	w.console.Say(format, args...)
}

// show shows a text, or removes it if it is empty.
func (w *waits) show(text string) {
	if w.terminal {
		width, _, _ := w.f.TerminalSize(w.f.Err)
		w.console.Draw(types.Cut(text, max(width-len("escher: ")-1, narrowest)))
		return
	}
	if now := time.Now(); text != "" && text != w.said && now.Sub(w.at) >= sayEvery {
		w.said, w.at = text, now
		w.console.Say("%s", text)
	}
}
