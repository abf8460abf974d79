#!/usr/bin/env bash
# Submits a job script with the settings of the site file: jobs/submit.sh [sbatch or qsub options]
# SCRIPT [its arguments]
#   jobs/submit.sh jobs/slurm/4node.sbatch input/recipes/resnet50.cfg --epochs 10
#   jobs/submit.sh --gpus-per-node=4 jobs/slurm/2node.sbatch input/recipes/resnet50.cfg
#   jobs/submit.sh -l walltime=1:00:00 jobs/pbs/4node.pbs input/recipes/resnet50.cfg --epochs 10
# --gpus-per-node=[TYPE:]N is for both schedulers: scripts for whole nodes then take N GPUs of each.
# It may be called from any folder; paths of recipes and data sets are looked for there, too.
set -euo pipefail
caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/common.sh

options=()
while [[ $# -gt 0 && $1 != *.sbatch && $1 != *.pbs ]]; do
  if [[ $1 == --gpus-per-node || $1 == --gres ]]; then # in the form with =
    set -- "$1=${2:-}" "${@:3}"
  fi
  options+=("$1")
  shift
done
[[ $# -gt 0 ]] || fail "usage: jobs/submit.sh [options] SCRIPT.sbatch|SCRIPT.pbs [arguments]"
script=$1
shift
[[ -e $script || ! -e $caller/$script ]] || script=$(realpath --relative-to=. "$caller/$script")
[[ -e $script ]] || fail "there is no $script; jobs/README.md lists them"
regular_file "$script" "the job script"

# Recipes and data sets that exist only in the caller's folder get their whole path.
arguments=()
for word in "$@"; do
  path=${word#--data=}
  if [[ $path == *.cfg || $word == --data=* || ${arguments[*]: -1} == --data ]] && [[ $path != /* && ! -e $path && -e $caller/$path ]]; then
    word=${word%"$path"}$caller/$path
  fi
  arguments+=("$word")
done
set -- "${arguments[@]}"

runs=${CONVOY_RUNS:-}
[[ -z $runs ]] || mkdir -p "$runs" || fail "CONVOY_RUNS=$runs cannot be made: correct it in the site file"

# Sets `asked` to [TYPE:]N of --gpus-per-node or --gres, and takes --gpus-per-node out of `options`.
asked=''
take_gpus() {
  local word rest=()
  for word in "${options[@]}"; do
    case $word in
      --gpus-per-node=*) asked=${word#*=} ;;
      --gres=*gpu*)
        [[ $word =~ gpu(:[^,:]*[^,:0-9][^,:]*)?(:[0-9]+)? ]] && asked=${BASH_REMATCH[1]#:} asked=${asked:+$asked:}${BASH_REMATCH[2]#:}
        [[ $asked =~ [0-9]$ ]] || asked+=1 # Slurm's default
        gres=yes rest+=("$word")
        ;;
      *) rest+=("$word") ;;
    esac
  done
  options=("${rest[@]}")
}

submit_to_slurm() {
  local site own=() gres='' whole name gpus copy=$script code=0
  command -v sbatch >/dev/null || fail "sbatch is not here: this is not a login node of a Slurm cluster"
  read -ra site <<<"${SBATCH_OPTIONS:-}"
  options=("${site[@]}" "${options[@]}")
  take_gpus
  whole=$(sed -n 's/^#SBATCH --gpus-per-node=//p' "$script") # 8 if a script takes whole nodes
  ((${whole:-0} < 2)) || : "${asked:=${CONVOY_GPUS_PER_NODE:-}}"
  if [[ -n $asked ]]; then
    gpus=$(number_of_gpus "$asked") || fail "--gpus-per-node=$asked is not [TYPE:]N, as in 4 or a100:4"
    [[ -n $gres ]] || own+=(--gpus-per-node="$asked")
    if grep -q '^#SBATCH --ntasks-per-node=' "$script"; then
      own+=(--ntasks-per-node="$gpus")
    elif ((${whole:-0} > 1)); then # one task per node has the cores of all its ranks
      own+=(--cpus-per-task=$(($(sed -n 's/^#SBATCH --cpus-per-task=//p' "$script") * gpus / whole)))
    fi
    export CONVOY_ASKED_GPUS=$gpus
  fi
  name=$(sed -n 's|^#SBATCH --output=output/||p' "$script")
  [[ -z $runs ]] || own+=(--output="$runs/$name")
  if [[ -n $gres ]]; then # Slurm would request both
    # In /tmp, where no other user can rename it; TMPDIR may be a group's folder.
    copy=$(mktemp -d /tmp/convoy-job-XXXXXX)/${script##*/}
    sed '/^#SBATCH --gpus-per-node=/d' "$script" >"$copy"
  fi
  export CONVOY_SUBMIT='' # tells the job that this script has submitted it
  sbatch "${own[@]}" "${options[@]}" "$copy" "$@" || code=$? # SBATCH_ACCOUNT and others come from the site file
  [[ $copy == "$script" ]] || { rm -f "$copy" && rmdir "${copy%/*}"; } 2>/dev/null || true
  return "$code"
}

submit_to_pbs() {
  local own=() kept=() i select gpus passed=CONVOY_ARGS,CONVOY_SUBMIT name
  command -v qsub >/dev/null || fail "qsub is not here: this is not a login node of a PBS cluster"
  take_gpus
  asked=${asked:-${CONVOY_ASKED_GPUS:-${CONVOY_GPUS_PER_NODE:-}}}
  select=$(sed -n 's/^#PBS -l select=//p' "$script")
  if [[ -n $asked && " ${options[*]} " != *" select="* && $select =~ ^([0-9]+):ncpus=([0-9]+):mpiprocs=([0-9]+):ngpus=([0-9]+):(.*)$ ]] && ((BASH_REMATCH[4] > 1)); then
    gpus=$(number_of_gpus "$asked") || fail "--gpus-per-node=$asked is not [TYPE:]N, as in 4 or a100:4"
    own+=(-l "select=${BASH_REMATCH[1]}:ncpus=$((BASH_REMATCH[2] * gpus / BASH_REMATCH[4])):mpiprocs=$gpus:ngpus=$gpus:${BASH_REMATCH[5]}")
    CONVOY_ASKED_GPUS=$gpus
  fi
  [[ -z $runs ]] || own+=(-o "$runs/")
  for ((i = 0; i < ${#options[@]}; i++)); do # options for a copy of the job, whose dependencies are over by then
    if [[ ${options[i]} == -W && ${options[i + 1]:-} == depend=* ]]; then ((++i)); else kept+=("${options[i]}"); fi
  done
  CONVOY_ARGS=$(packed "$(quoted "$@")") CONVOY_SUBMIT=$(packed "$(quoted "${kept[@]}")")
  export CONVOY_ARGS CONVOY_SUBMIT
  for name in $passed_names; do
    [[ -z ${!name:-} ]] || { export "$name=$(packed "${!name}")" && passed+=,$name; }
  done
  # shellcheck disable=SC2086
  exec qsub -S "$PWD/jobs/pbs/shell.sh" ${QSUB_OPTIONS:-} "${own[@]}" "${options[@]}" -v "$passed" "$script"
}

if [[ $script == *.sbatch ]]; then submit_to_slurm "$@"; else submit_to_pbs "$@"; fi
