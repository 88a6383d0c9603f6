// Package share has the policy that divides capacity among teams and users by weight.
package share
