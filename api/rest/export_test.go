package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// Build returns the handler, and the API that it serves.
func Build(cfg Config) (http.Handler, huma.API) { return handler(cfg) }

// Paged returns a page of texts.
func Paged(all []string, after string, limit int) (items []string, next string) {
	p := paged(&Part{Limit: limit, After: after}, 1, all, func(s string) string { return s })
	return p.Items, p.Next
}
