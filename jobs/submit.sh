#!/usr/bin/env bash
# Submits a job script with the account and queue of the site file: jobs/submit.sh [sbatch or qsub
# options] SCRIPT [its arguments]
#   jobs/submit.sh jobs/slurm/4node.sbatch input/recipes/resnet50.cfg --epochs 10
#   jobs/submit.sh -l walltime=1:00:00 jobs/pbs/4node.pbs input/recipes/resnet50.cfg --epochs 10
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/common.sh
options=()
while [[ $# -gt 0 && $1 != *.sbatch && $1 != *.pbs ]]; do
  options+=("$1")
  shift
done
[[ $# -gt 0 ]] || fail "usage: jobs/submit.sh [options] SCRIPT.sbatch|SCRIPT.pbs [arguments]"
script=$1
shift
[[ -e $script ]] || fail "there is no $script; jobs/README.md lists them"
if [[ $script == *.sbatch ]]; then
  command -v sbatch >/dev/null || fail "sbatch is not here: this is not a login node of a Slurm cluster"
  exec sbatch "${options[@]}" "$script" "$@" # the site file has exported SBATCH_ACCOUNT and SBATCH_PARTITION
fi
command -v qsub >/dev/null || fail "qsub is not here: this is not a login node of a PBS cluster"
kept=() # what a copy of the job is submitted with; what it waited for is over then
for ((i = 0; i < ${#options[@]}; i++)); do
  if [[ ${options[i]} == -W && ${options[i + 1]:-} == depend=* ]]; then ((++i)); else kept+=("${options[i]}"); fi
done
CONVOY_ARGS=$(packed "$(quoted "$@")") CONVOY_SUBMIT=$(packed "$(quoted "${kept[@]}")")
export CONVOY_ARGS CONVOY_SUBMIT
passed=CONVOY_ARGS,CONVOY_SUBMIT
for name in $passed_names; do
  [[ -z ${!name:-} ]] || { export "$name=$(packed "${!name}")" && passed+=,$name; }
done
# shellcheck disable=SC2086
exec qsub -S "$PWD/jobs/pbs/shell.sh" ${QSUB_OPTIONS:-} "${options[@]}" -v "$passed" "$script"
