#!/usr/bin/env bash
# Installs what is missing, as root, or says what to install.
#
#   deps.sh run     what running containers takes: containerd, runc, and tini for tasks that ask for an init
#   deps.sh test    what tests take besides: gcc for the race detector, iproute2 for networks of hosts, curl,
#                   python3 with numpy and gRPC, protoc, busybox; zsh, fish and bash-completion for the completion
#                   of shells
#   deps.sh image   what making images of Debian's packages takes: mmdebstrap (debian.sh)
#   deps.sh root    checks that we are root, as containers take that
set -euo pipefail

# Ordinary users often lack the directories that runc and containerd are in.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

missing=()

# need PACKAGE COMMAND notes the Debian package if the command is not there.
need() {
  command -v "$2" >/dev/null || missing+=("$1")
}

root() {
  [ "$(id -u)" -eq 0 ] && return
  cat >&2 <<TXT
This runs real containers, which takes root. Run it so:

    sudo env "PATH=\$PATH" make ${GOAL:-test}
TXT
  exit 1
}

for what in "$@"; do
  case $what in
    root) root ;;
    run)
      need containerd containerd
      need runc runc
      need tini tini-static
      ;;
    test)
      need gcc gcc
      # Hosts in network namespaces.
      need iproute2 ip
      # gcc alone does not bring what it links with.
      [ -e /usr/include/stdlib.h ] || missing+=(libc6-dev)
      # Each shell tries its completion.
      need busybox-static busybox
      need zsh zsh
      need fish fish
      [ -e /usr/share/bash-completion/bash_completion ] || missing+=(bash-completion)
      # Tasks are tried in several languages: containers are given those of /usr.
      [ -x /usr/bin/curl ] || missing+=(curl)
      [ -x /usr/bin/python3 ] || missing+=(python3)
      [ -e /usr/lib/python3/dist-packages/numpy ] || missing+=(python3-numpy)
      # A program in Python follows keys of etcd.
      need protobuf-compiler protoc
      [ -e /usr/lib/python3/dist-packages/grpc ] || missing+=(python3-grpcio)
      ;;
    image)
      need mmdebstrap mmdebstrap
      ;;
    *)
      echo "deps.sh: $what is unknown: use run, test, image or root" >&2
      exit 2
      ;;
  esac
done

[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  cat >&2 <<TXT
Missing: ${missing[*]}. Install them with the package manager of this machine; on Debian:

    sudo apt-get install --no-install-recommends ${missing[*]}
TXT
  exit 1
fi

echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null
