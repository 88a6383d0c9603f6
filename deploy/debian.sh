#!/usr/bin/env bash
# Makes an image of Debian's packages, for escher image load, unless the file is there. It takes the
# packages from where apt of this machine has them. Needs root, and mmdebstrap: deps.sh image.
#
#   debian.sh FILE NAME PACKAGE...
set -euo pipefail

file=${1:?usage: debian.sh FILE NAME PACKAGE...}
name=${2:?usage: debian.sh FILE NAME PACKAGE...}
shift 2
packages=$*

[ -s "$file" ] && exit 0

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
echo "making $name of Debian's ${packages// /, }: a minute" >&2

# mmdebstrap has a configuration of apt of its own: it is given that of the machine, and leaves none
# in the image, as it may have passwords.
apt-config dump Acquire >"$new/apt.conf"
shopt -s nullglob
sources=(/etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources)
for i in "${!sources[@]}"; do [ -s "${sources[i]}" ] || unset "sources[i]"; done
mmdebstrap --quiet --variant=essential --include="${packages// /,}" --aptopt="$new/apt.conf" \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --customize-hook='rm -rf "$1"/etc/apt/sources.list* "$1"/etc/apt/apt.conf.d/99mmdebstrap' \
  "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$new/layer.tar" "${sources[@]}" ||
  { echo "debian.sh: no image: mmdebstrap says why above; apt-get update must work here" >&2; exit 1; }

# The image is an archive as of docker save: a layer, its configuration, and its name.
cat >"$new/config.json" <<JSON
{"architecture": "$(dpkg --print-architecture)", "os": "linux",
 "config": {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$(sha256sum "$new/layer.tar" | cut -d ' ' -f 1)"]}}
JSON
echo '[{"Config": "config.json", "RepoTags": ["'"$name"'"], "Layers": ["layer.tar"]}]' >"$new/manifest.json"
mkdir -p "$(dirname "$file")"
tar -C "$new" -c manifest.json config.json layer.tar | gzip -1 >"$file.new"
mv "$file.new" "$file"
