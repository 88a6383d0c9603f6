package flagset

import (
	"io"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
)

// LoggingFlags say how a long-running command logs.
type LoggingFlags struct{ Format, Level string }

func (l *LoggingFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&l.Format, "log-format", "console", "format of the log: console, or json with an entry per line")
	flags.StringVar(&l.Level, "log-level", "info", "least level to log: debug, info, warn or error")
}

// Core returns a core that logs to w.
func (l *LoggingFlags) Core(w io.Writer) (zapcore.Core, error) {
	level, err := zapcore.ParseLevel(l.Level)
	if err != nil || level > zapcore.ErrorLevel {
		return nil, types.Errorf(types.Invalid, "log-level: %q is unknown: use debug, info, warn or error", l.Level)
	}
	conf := zap.NewProductionEncoderConfig()
	conf.TimeKey, conf.NameKey = "time", "component"
	conf.EncodeTime = zapcore.ISO8601TimeEncoder
	conf.EncodeDuration = zapcore.StringDurationEncoder
	var encoder zapcore.Encoder
	switch l.Format {
	case "json":
		encoder = zapcore.NewJSONEncoder(conf)
	case "console":
		encoder = zapcore.NewConsoleEncoder(conf)
	default:
		return nil, types.Errorf(types.Invalid, "log-format: %q is unknown: use console or json", l.Format)
	}
	return zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level), nil
}

// Logger returns the logger of a command that logs to its error output.
func (l *LoggingFlags) Logger(f *cmdutil.Factory) (*zap.Logger, error) {
	core, err := l.Core(f.Err)
	if err != nil {
		return nil, err
	}
	return zap.New(core), nil
}
