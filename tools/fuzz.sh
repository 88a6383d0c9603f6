#!/usr/bin/env bash
# tools/fuzz.sh TIME PACKAGE runs the fuzz targets of a package for TIME, all at once. It builds them
# once.
# Go calls the end of the time a failure now and then: "context deadline exceeded", and no
# failing input. That counts as an end.
set -euo pipefail
test=$(mktemp)
trap 'rm -f "$test"' EXIT
time=$1 package=$2
cd "$package"
go test -trimpath -c -fuzz . -o "$test" .
# fuzz TARGET runs one target.
fuzz() {
  local target=$1 found out
  found=$(go env GOCACHE)/fuzz/$(go list .)/$target
  mkdir -p "$found"
  if ! out=$("$test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.parallel 1 -test.fuzzcachedir "$found" 2>&1) &&
    { [[ $out == *"Failing input"* ]] || [[ $out != *"context deadline exceeded"* ]]; }; then
    echo "$out"
    return 1
  fi
  echo "ok  $package $target"
}

jobs=()
for target in $(cat ./*_test.go | grep -oP '^func \KFuzz\w+'); do
  fuzz "$target" &
  jobs+=($!)
done
status=0
for job in "${jobs[@]}"; do
  wait "$job" || status=1
done
exit $status
