#!/usr/bin/env bash
# Entry point of a container of Convoy's image. It runs a command of Convoy (`run IMAGE train …`) or
# another program (`run IMAGE mpirun …`). Without a command it stays up, for `exec CONTAINER bash`.
# Expected: the command's output and exit code.
set -euo pipefail
# mpirun's hwloc would ask X servers for GPUs, and any user of the node can answer in their place.
export HWLOC_COMPONENTS=${HWLOC_COMPONENTS--gl}
if [[ $# -gt 0 ]]; then
  # Uses Convoy's own list, because `convert` and `info` may also be other programs.
  if [[ $1 == -* ]] || convoy help | awk '/^  [a-z]/ { print $1 }' | grep -qx -e "$1" -e help -e version || ! command -v "$1" >/dev/null; then
    exec convoy "$@"
  fi
  exec "$@"
fi
if [[ -t 0 ]]; then exec bash; fi
echo "no command: staying up; docker exec -it CONTAINER bash" >&2
# The first process of a container gets a TERM only if it has a trap.
trap 'exit 0' TERM INT
sleep infinity &
wait $!
