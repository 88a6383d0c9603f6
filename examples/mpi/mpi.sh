#!/bin/sh
# Runs a program with Open MPI in the tasks of a gang.
#
#   mpi.sh DIRECTORY PROGRAM...
#
# The first task runs mpirun, which starts its daemon in the others by this script, in place of ssh.
# The command of a daemon is a file in the directory, which all tasks share.
set -eu

if [ "${MPI_COMMANDS:-}" ]; then # mpirun calls: mpi.sh HOST COMMAND...
  host=$1
  shift
  echo "$*" >"$MPI_COMMANDS/$host.new"
  mv "$MPI_COMMANDS/$host.new" "$MPI_COMMANDS/$host"
  exit
fi

commands=$1/$ESCHER_JOB.$ESCHER_ATTEMPT
shift
mkdir -p "$commands"
if [ "$NODE_RANK" -gt 0 ]; then
  until [ -e "$commands/rank$NODE_RANK" ]; do sleep 0.1; done
  daemon=$(cat "$commands/rank$NODE_RANK")
  rm "$commands/rank$NODE_RANK"
  exec sh -c "$daemon"
fi

# A host for each of the gang: names, because several tasks may have the address of one machine.
rank=0
for _ in $(echo "$ESCHER_PEERS" | tr , ' '); do
  if [ $rank -eq 0 ]; then hostname; else echo "rank$rank"; fi
  rank=$((rank + 1))
done >/tmp/hosts
export MPI_COMMANDS="$commands"
exec mpirun --hostfile /tmp/hosts --map-by node -n "$NNODES" --leave-session-attached \
  --mca orte_keep_fqdn_hostnames 1 --mca plm_rsh_no_tree_spawn 1 --mca plm_rsh_agent "sh $PWD/${0##*/}" "$@"
