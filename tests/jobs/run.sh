#!/usr/bin/env bash
# make test-jobs: run.sh [TEST...], for example run.sh slurm_test.Slurm.test_array_sweep. As root it
# uses separate namespaces: processes, network and mounts end with it, however it ends.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
tests=("$@")
[[ $# -gt 0 ]] || tests=(scripts_test submit_test shared_folders_test outer_job_test scaling_test slurm_test accept_test pbs_test adhoc_test)
python=${PYTHON:-/usr/bin/python3}
isolated=(unshare --net --mount --pid --ipc --fork --mount-proc --kill-child)
if ! "${isolated[@]}" true 2>/dev/null; then
  echo "no right to make namespaces here (that takes root): only what needs none is tested" >&2
  isolated=()
fi
scratch=$(mktemp -d) && chmod 755 "$scratch"
trap 'rm -rf "$scratch"' EXIT
TMPDIR=$scratch timeout -k 10 900 "${isolated[@]}" "$python" -W error::ResourceWarning -m unittest --verbose "${tests[@]}"
