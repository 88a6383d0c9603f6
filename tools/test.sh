#!/usr/bin/env bash
# Runs go test with the arguments given, the packages last. The race detector of Go 1.26 ends a
# test program that uses testing/synctest now and then (https://github.com/golang/go/issues/78156):
# a package that ended so, without a failed test, is tested once more.
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
go test "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
[ "$status" -eq 0 ] && exit 0
failed=$(grep -cP '^FAIL\t' "$log")
crashed=$(awk -F'\t' '
  /^ThreadSanitizer: CHECK failed/ || /^SIGSEGV: segmentation violation/ { crash = 1 }
  /^ *--- FAIL/ || /^panic:/ { test = 1 }
  /^(ok  |FAIL|\?   )\t/ { if ($1 == "FAIL" && crash && !test) print $2; crash = 0; test = 0 }
' "$log")
[ -n "$crashed" ] && [ "$failed" -eq "$(wc -l <<<"$crashed")" ] || exit "$status"
printf '\nThe race detector ended these, not a test: once more\n%s\n' "$crashed"
module=$(go list -m)
args=()
for a in "$@"; do
  case $a in ./* | "$module"*) ;; *) args+=("$a") ;; esac
done
# shellcheck disable=SC2086 # one word for each package
exec go test "${args[@]}" $crashed
