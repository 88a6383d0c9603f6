package oidc

import (
	"bytes"
	"encoding/json"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
)

// user returns the user and the groups that the claims of a valid token name. Denied: they are not names, or
// the token was made for another client.
func (c Config) user(t *oidc.IDToken) (User, error) {
	var claims map[string]json.RawMessage
	if err := t.Claims(&claims); err != nil {
		return User{}, types.Errorf(types.Denied, "read the claims of the token: %w: log in again with escher login", err)
	}
	// A token may be for several clients. Another one that got it is no user.
	if to, err := text(claims, "azp"); err != nil || to != "" && to != c.ClientID {
		return User{}, types.Errorf(types.Denied, "the token was made for the client %.80q: log in with escher login, which asks for one for %q", to, c.ClientID)
	}
	name, err := text(claims, c.UsernameClaim)
	if err == nil && claims[c.UsernameClaim] == nil {
		err = types.Errorf(types.Denied, "is absent: have the issuer send it, or start the servers with another --oidc-username-claim")
	}
	if err == nil {
		err = issued.Validate("name", c.Prefix, name)
	}
	if err != nil {
		return User{}, types.Errorf(types.Denied, "claim %s of the token: %w", c.UsernameClaim, err)
	}
	// The address is the user's own only if the issuer has checked it.
	if is := claims["email_verified"]; c.UsernameClaim == "email" && is != nil && !bytes.Equal(is, []byte("true")) {
		return User{}, types.Errorf(types.Denied, "claim email_verified of the token: is not true: confirm the address %.80q at the issuer", name)
	}
	groups, err := c.groups(claims[c.GroupsClaim])
	if err != nil {
		return User{}, err
	}
	return User{Name: issued.Name(c.Prefix + name), Groups: groups, Expires: t.Expiry}, nil
}

// groups returns the names of groups in a claim: a list of texts, or one text.
func (c Config) groups(claim json.RawMessage) ([]string, error) {
	if claim == nil || bytes.Equal(claim, []byte("null")) {
		return nil, nil
	}
	all := make([]string, 1)
	if json.Unmarshal(claim, &all[0]) != nil {
		if err := json.Unmarshal(claim, &all); err != nil {
			return nil, types.Errorf(types.Denied, "claim %s of the token: is no list of texts: have the issuer send one, or start the servers with another --oidc-groups-claim", c.GroupsClaim)
		}
	}
	if len(all) > types.MaxGroups {
		return nil, types.Errorf(types.Denied, "claim %s of the token: has %d groups, and at most %d are allowed: have the issuer send those alone that matter to Escher", c.GroupsClaim, len(all), types.MaxGroups)
	}
	names := make([]string, len(all))
	for i, g := range all {
		if err := issued.Validate("group", c.Prefix, g); err != nil {
			return nil, types.Errorf(types.Denied, "claim %s of the token: %w", c.GroupsClaim, err)
		}
		names[i] = issued.Name(c.Prefix + g)
	}
	return names, nil
}

// text returns the claim of a name, which must be a text; empty if it is absent.
func text(claims map[string]json.RawMessage, name string) (string, error) {
	claim := claims[name]
	var out *string
	if claim == nil {
		return "", nil
	}
	if err := json.Unmarshal(claim, &out); err != nil || out == nil {
		return "", types.Errorf(types.Denied, "is no text: have the issuer send one")
	}
	return *out, nil
}
