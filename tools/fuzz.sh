#!/usr/bin/env bash
# tools/fuzz.sh TIME PACKAGE runs each fuzz target of a package for TIME. It builds them once.
# Go calls the end of the time a failure now and then: "context deadline exceeded", and no
# failing input. That counts as an end.
set -euo pipefail
test=$(mktemp)
trap 'rm -f "$test"' EXIT
cd "$2"
go test -trimpath -c -fuzz . -o "$test" .
for target in $(cat ./*_test.go | grep -oP '^func \KFuzz\w+'); do
  found=$(go env GOCACHE)/fuzz/$(go list .)/$target
  mkdir -p "$found"
  if ! out=$("$test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$1" -test.parallel 1 -test.fuzzcachedir "$found" 2>&1) &&
    { [[ $out == *"Failing input"* ]] || [[ $out != *"context deadline exceeded"* ]]; }; then
    echo "$out"
    exit 1
  fi
  echo "ok  $2 $target"
done
