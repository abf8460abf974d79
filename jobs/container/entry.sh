#!/usr/bin/env bash
# What a container of Convoy's image runs: a command of Convoy (`run IMAGE train …`), another
# program (`run IMAGE mpirun …`), or nothing: then it stays up, for `exec CONTAINER bash`.
# Expected: what the command prints, and its exit code.
set -euo pipefail
if [[ $# -gt 0 ]]; then
  # By Convoy's own list: `convert` and `info` are programs elsewhere, too.
  if [[ $1 == -* ]] || convoy help | awk '/^  [a-z]/ { print $1 }' | grep -qx -e "$1" -e help -e version || ! command -v "$1" >/dev/null; then
    exec convoy "$@"
  fi
  exec "$@"
fi
if [[ -t 0 ]]; then exec bash; fi
echo "no command: staying up; docker exec -it CONTAINER bash" >&2
# As the first process of a container, a shell hears a TERM only if it has a trap.
trap 'exit 0' TERM INT
sleep infinity &
wait $!
