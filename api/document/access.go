package document

import (
	"time"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// Right is the JSON form of a right.
type Right struct {
	Name       string      `json:"name"`
	Subjects   []string    `json:"subjects" nullable:"false" doc:"the subjects that have it: user:NAME, group:NAME or service:NAME"`
	Role       rights.Role `json:"role,omitempty" doc:"what they may do: viewer, member, operator or administrator"`
	Allow      []string    `json:"allow,omitempty" doc:"what they may do besides, such as \"read tasks\""`
	Namespaces []string    `json:"namespaces" nullable:"false" doc:"where: names of namespaces, or * for the cluster with all of them"`
	Revision   int64       `json:"revision,omitempty" doc:"the revision of its last change"`
}

// RightOf returns the JSON form of a right.
func RightOf(r access.Stored[types.Right]) Right {
	v := r.Value
	return Right{Name: r.Name, Subjects: v.Subjects, Role: v.Role, Allow: v.Allow, Namespaces: v.Namespaces, Revision: r.Revision}
}

// Token is the JSON form of a credential.
type Token struct {
	ID         string      `json:"id"`
	Subject    string      `json:"subject" doc:"user:NAME or service:NAME"`
	Groups     []string    `json:"groups,omitempty"`
	Role       rights.Role `json:"role,omitempty" doc:"the most that it allows; without it, all that the subject may do"`
	Namespaces []string    `json:"namespaces,omitempty" doc:"where it is valid; without any, everywhere"`
	Made       time.Time   `json:"made"`
	Expires    time.Time   `json:"expires"`
	Maker      string      `json:"maker,omitempty"`
	Note       string      `json:"note,omitempty"`
}

// TokenOf returns the JSON form of a credential, without its hash.
func TokenOf(c access.Stored[types.Credential]) Token {
	v := c.Value
	return Token{
		ID: c.Name, Subject: v.Subject, Groups: v.Groups, Role: v.Role, Namespaces: v.Namespaces,
		Made: time.Unix(0, v.Made).UTC(), Expires: time.Unix(0, v.Expires).UTC(), Maker: v.Maker, Note: v.Note,
	}
}
