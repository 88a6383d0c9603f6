// Package oidc lets users log in at an issuer of OpenID Connect: servers verify the tokens of the issuer, and
// the command line gets them by its device flow.
package oidc
