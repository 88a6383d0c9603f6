package escher

import (
	"log/slog"

	"go.uber.org/zap"
)

// Zap returns the logger of the libraries that logs to log.
func Zap(log *slog.Logger) *zap.Logger { return options{log: log}.logger() }

// Field returns a field of such a logger.
func Field(key string, value any) zap.Field { return zap.Any(key, value) }

// ByRequests returns a client of a namespace that sends its requests by r.
func ByRequests(namespace string, r transport) *Client {
	return &Client{namespace: namespace, requests: r, log: zap.NewNop(), end: func() error { return nil }}
}
