package escher

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap/zapcore"
)

// slogCore passes what the libraries log by zap on to a handler of log/slog.
type slogCore struct{ to slog.Handler }

// Enabled reports whether the handler takes a level.
func (c slogCore) Enabled(level zapcore.Level) bool {
	return c.to.Enabled(context.Background(), levelOf(level))
}

// With adds fields to all entries.
func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{to: c.to.WithAttrs(attributes(fields))}
}

// Check adds the core to an entry that it takes.
func (c slogCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write passes on an entry.
func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, levelOf(e.Level), e.Message, 0)
	if e.LoggerName != "" {
		r.AddAttrs(slog.String("logger", e.LoggerName))
	}
	r.AddAttrs(attributes(fields)...)
	return c.to.Handle(context.Background(), r)
}

// Sync does nothing: a handler has written what it took.
func (slogCore) Sync() error { return nil }

// levelOf returns the level of log/slog.
func levelOf(level zapcore.Level) slog.Level {
	switch {
	case level < zapcore.InfoLevel:
		return slog.LevelDebug
	case level == zapcore.InfoLevel:
		return slog.LevelInfo
	case level == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// attributes converts fields.
func attributes(fields []zapcore.Field) []slog.Attr {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(values)
	}
	out := make([]slog.Attr, 0, len(values.Fields))
	for _, key := range slices.Sorted(maps.Keys(values.Fields)) {
		out = append(out, slog.Any(key, values.Fields[key]))
	}
	return out
}
