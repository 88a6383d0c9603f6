#!/usr/bin/env bash
# Puts 40 MB of English into a directory, as text.txt: Webster's dictionary of 1913 in
# the edition of GNU, as Debian packages it. Needs apt-get, not root.
#
#   text.sh DIRECTORY
set -euo pipefail

dir=${1:?usage: text.sh DIRECTORY}
package=dict-gcide
inside=usr/share/dictd/gcide.dict.dz

[ -s "$dir/text.txt" ] && exit 0

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
if [ -s "/$inside" ]; then
  mkdir -p "$new/${inside%/*}" && cp "/$inside" "$new/$inside"
elif command -v apt-get >/dev/null; then
  echo "fetching $package, 15 MB" >&2
  (cd "$new" && { apt-get -qq download "$package" || { apt-get -qq update && apt-get -qq download "$package"; }; } 2>"$new/log") ||
    { cat "$new/log" >&2; echo "text.sh: no text: put one of 20 MB or more at $dir/text.txt" >&2; exit 1; }
  dpkg-deb -x "$new"/*.deb "$new"
else
  echo "text.sh: no text, and no apt-get to fetch one with: put one of 20 MB or more at $dir/text.txt" >&2
  exit 1
fi
mkdir -p "$dir"
zcat <"$new/$inside" >"$dir/text.new"
mv "$dir/text.new" "$dir/text.txt"
