#!/usr/bin/env bash
# Trains on bare machines over ssh, those in a hostfile (jobs/adhoc/hostfile, or HOSTFILE=FILE):
# jobs/adhoc/run.sh RECIPE.cfg [options]
#   cp jobs/adhoc/hostfile.example jobs/adhoc/hostfile    # then write your machines into it
#   jobs/adhoc/run.sh input/recipes/resnet50.cfg --output output/mine
# All machines must see this folder under the same path (NFS), and ssh to them must not ask for a
# password. The output is also in OUTPUT.log, beside the run folder. Ctrl-C or a TERM checkpoints;
# the same command with the same --output continues the run. Expected: the results of the job script
# for as many GPUs. Proven with CPU ranks on emulated hosts (make test-jobs), never on GPUs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
unset SLURM_JOB_ID SLURM_JOBID PBS_JOBID # a job around this script has other hosts
source jobs/common.sh
hostfile=${HOSTFILE:-jobs/adhoc/hostfile}
[[ -e $hostfile ]] || fail "there is no $hostfile: copy jobs/adhoc/hostfile.example to it and write your machines into it"
regular_file "$hostfile" "the host file"
make_scratch
hosts_read=$scratch/hosts # read once: others who may rename in its folder cannot exchange what was checked
timeout 10 cat -- "$hostfile" >"$hosts_read" || fail "the host file $hostfile cannot be read"
mapfile -t hosts < <(sed -E 's/#.*//; /^[[:space:]]*$/d; s/^[[:space:]]*([^[:space:]]+).*/\1/' "$hosts_read")
[[ ${#hosts[@]} -gt 0 ]] || fail "$hostfile names no host"
for host in "${hosts[@]}"; do
  [[ $host != -* ]] || fail "$hostfile: $host is no host name, but an option of ssh: correct that line"
done
agent=${OMPI_MCA_plm_rsh_agent:-ssh -o BatchMode=yes -o ConnectTimeout=10}
for host in "${hosts[@]}"; do
  # shellcheck disable=SC2086
  answer=$(timeout 20 $agent "$host" "test -x $(quoted "$PWD/build/convoy") && echo found || echo none" </dev/null 2>&1) || fail "$host: $agent does not get in: ${answer##*$'\n'}"
  [[ $answer == *found ]] || fail "$host does not see $PWD/build/convoy: all machines need this folder under the same path"
done
export OMPI_MCA_plm_rsh_agent=$agent
make_scratch_on "${hosts[@]}"
launch=("${mpirun[@]}" --hostfile "$hosts_read")
pass_environment

# Keeps the output in a log, because no scheduler does.
read_arguments "$@"
export CONVOY_OUTPUT=${CONVOY_OUTPUT:-$runs_folder/$(job_name)-$(job_id)}
log=$(value_of output)
log=${log:-$CONVOY_OUTPUT}
if ! given dry-run && ! given help; then
  mkdir -p "$(dirname "$log")"
  log=${log%/}.log
  # Other users may be able to write in that folder: do not write through their links.
  no_log="$log is a link, has several names, or is no plain file: move it away, or choose another --output"
  [[ ! -L $log && (! -e $log || -f $log) ]] || fail "$no_log"
  exec 9<>"$log" # does not wait for a pipe that is there now
  # A received folder may have a hard link to another file of yours.
  [[ ! -L $log && -f /dev/fd/9 && $log -ef /dev/fd/9 && $(stat -L -c %h /dev/fd/9) -eq 1 ]] || fail "$no_log"
  exec 9>>/dev/fd/9
  exec > >(exec tee -ia /dev/fd/9) 2>&1 # -i: a Ctrl-C is for the training
  log_writer=$!
  exec 9>&-
  trap 'rm -rf "$scratch"; exec >&- 2>&-; wait "$log_writer" || true' EXIT
fi
train_on auto "$@"
