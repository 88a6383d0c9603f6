package cli

import (
	"io"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/escher-sched/escher/types"
)

// loggingFlags say how a long-running command logs.
type loggingFlags struct{ format, level string }

func (l *loggingFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&l.format, "log-format", "console", "how the log is shown: console or json, a line an entry")
	flags.StringVar(&l.level, "log-level", "info", "what is logged at least: debug, info, warn or error")
}

// core returns what logs to w.
func (l *loggingFlags) core(w io.Writer) (zapcore.Core, error) {
	level, err := zapcore.ParseLevel(l.level)
	if err != nil || level > zapcore.ErrorLevel {
		return nil, types.Errorf(types.Invalid, "log-level: %q is unknown: use debug, info, warn or error", l.level)
	}
	conf := zap.NewProductionEncoderConfig()
	conf.TimeKey, conf.NameKey = "time", "component"
	conf.EncodeTime = zapcore.ISO8601TimeEncoder
	conf.EncodeDuration = zapcore.StringDurationEncoder
	var encoder zapcore.Encoder
	switch l.format {
	case "json":
		encoder = zapcore.NewJSONEncoder(conf)
	case "console":
		encoder = zapcore.NewConsoleEncoder(conf)
	default:
		return nil, types.Errorf(types.Invalid, "log-format: %q is unknown: use console or json", l.format)
	}
	return zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level), nil
}

// logger returns the logger of a command whose log is its error output.
func (l *loggingFlags) logger(f *Factory) (*zap.Logger, error) {
	core, err := l.core(f.Err)
	if err != nil {
		return nil, err
	}
	return zap.New(core), nil
}
