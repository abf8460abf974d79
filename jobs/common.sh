# shellcheck shell=bash
# Sourced by every job script from the repository's folder. Reads the site file, decides where ranks
# run, and defines the launch lines: train_on, sweep_on, bench_on. jobs/requeue.sh decides which
# jobs go back into the queue, jobs/outer_job.sh which variables a job does not inherit.
set -euo pipefail

fail() {
  echo "convoy job: $*" >&2
  exit 2
}

# Prints words that can be pasted into a shell; plain ones stay unchanged.
quoted() {
  local word words=() quote="'\\''"
  for word in "$@"; do
    [[ $word =~ ^[[:alnum:]%+,./:=@_-]+$ ]] || word="'${word//\'/$quote}'"
    words+=("$word")
  done
  local IFS=' '
  printf '%s\n' "${words[*]}"
}

# regular_file PATH WHAT: fails for a pipe, which a script would wait for, and for a device.
regular_file() { [[ -f $1 ]] || fail "$2 $1 is not a regular file: give a file, no pipe and no folder"; }

source jobs/outer_job.sh

# PBS splits the values of variables at commas and backslashes, and strips blanks off their ends.
# Such values are passed in base64, and so is a value that begins like one.
packed() {
  if [[ $1 == base64:* || $1 == *[^a-zA-Z0-9\ ./:=_+-]* || $1 == " "* || $1 == *" " ]]; then
    echo "base64:$(base64 -w0 <<<"$1")"
  else
    echo "$1"
  fi
}
unpacked() { if [[ $1 == base64:* ]]; then base64 -d <<<"${1#base64:}"; else echo "$1"; fi; }
passed_names="CONVOY_SITE CONVOY_ASKED_GPUS CONVOY_RUNS CONVOY_OUTPUT CONVOY_DATA CONVOY_RETRIES CONVOY_FIRST_JOB CELL BATCHES REPEATS"
for name in CONVOY_ARGS CONVOY_SUBMIT $passed_names; do
  [[ -z ${!name:-} ]] || printf -v "$name" %s "$(unpacked "${!name}")"
done

# ---- the site file: the only one a user edits ----------------------------------------------------
read_site() {
  local files=(jobs/site/*.env) names
  if [[ -n ${CONVOY_SITE:-} ]]; then
    files=("jobs/site/$CONVOY_SITE.env")
    [[ -e ${files[0]} ]] || fail "${files[0]} is not there: copy jobs/site/cluster.env.example to it and fill it in, or unset CONVOY_SITE"
  fi
  names=$(basename -a -s .env "${files[@]}" | paste -sd ' ' -)
  [[ ${#files[@]} -eq 1 ]] || fail "there are several site files; set CONVOY_SITE to one of: $names"
  [[ -e ${files[0]} ]] || return 0 # no site file: the scheduler's defaults
  regular_file "${files[0]}" "the site file"
  set +eu                          # module systems fail with -eu
  # shellcheck disable=SC1090
  source "${files[0]}"
  set -eu
}
# Prints settings that only jobs/submit.sh, or a shell that has sourced the site file, passes to the
# scheduler.
for_submission() { declare -p "${!SBATCH_@}" QSUB_OPTIONS CONVOY_GPUS_PER_NODE CONVOY_RUNS 2>/dev/null || true; }
before=$(for_submission)
read_site
if [[ -n ${SLURM_JOB_ID:-}${PBS_JOBID:-} && -z ${CONVOY_SUBMIT+set} && $(for_submission) != "$before" ]]; then
  echo "convoy job: warning: jobs/submit.sh did not submit this job, so the scheduler has not seen what the site file asks of it" >&2
fi

# Prints N of [TYPE:]N, the form of --gpus-per-node.
number_of_gpus() { [[ $1 =~ ^([^:]+:)?([1-9][0-9]*)$ ]] && echo "${BASH_REMATCH[2]}"; }
gpus_per_node=$(number_of_gpus "${CONVOY_ASKED_GPUS:-${CONVOY_GPUS_PER_NODE:-8}}") ||
  fail "CONVOY_GPUS_PER_NODE=${CONVOY_GPUS_PER_NODE:-} is not [TYPE:]N, as in 4 or a100:4: correct the site file"
runs_folder=${CONVOY_RUNS:-output}

if [[ -n ${SLURM_JOB_ID:-} ]]; then
  scheduler=slurm
elif [[ -n ${PBS_JOBID:-} ]]; then
  scheduler=pbs
else
  scheduler=none
fi

source jobs/launcher.sh

job_id() {
  case $scheduler in
    slurm) echo "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}" ;;
    pbs) echo "${PBS_JOBID%%.*}" ;;
    none) date +%Y%m%d-%H%M%S ;;
  esac
}
job_name() { echo "${SLURM_JOB_NAME:-${PBS_JOBNAME:-convoy}}"; }

# ---- one launch, and the steps after it ----------------------------------------------------------
child='' asked=''
pass_on() {
  asked=$1 interrupted=yes
  [[ -z $child ]] || kill -USR1 "$child" 2>/dev/null || true
}
trap 'pass_on USR1' USR1
trap 'pass_on TERM' TERM
trap 'pass_on INT' INT

# Runs a command in the background, so that signals reach this shell at once; `code` is its exit
# code.
supervise() {
  if [[ -n $asked ]]; then # the signal came before there was anything to stop
    code=85
    return
  fi
  "$@" </dev/null & # PBS may feed this script to bash through stdin
  child=$!
  [[ -z $asked ]] || kill -USR1 "$child" # the signal came before the child
  interrupted=yes
  while [[ -n $interrupted ]]; do
    interrupted='' code=0
    wait "$child" || code=$?
  done
  child=''
}

source jobs/requeue.sh

# Exports the job's end time, before which Convoy stops. Slurm is asked first, because before 23.02
# it does not set the variable in a job, and an outer job's value would stay.
slurm_end_time() {
  local end
  end=$(SLURM_TIME_FORMAT=standard squeue -h -j "$(job_id)" -o %e 2>/dev/null) || end=''
  [[ -n $end ]] || end=${SLURM_JOB_END_TIME:-}
  [[ $end != *T* ]] || end=$(date -d "$end" +%s) || return 0
  if [[ $end =~ ^[0-9]+$ ]]; then export SLURM_JOB_END_TIME=$end; else unset SLURM_JOB_END_TIME; fi
}

# Prints the seconds until PBS ends the job, less two minutes, or less a quarter if under eight
# minutes; prints nothing if that is unknown. (Slurm's limit is in SLURM_JOB_END_TIME.)
pbs_time_limit() {
  local h m s
  IFS=: read -r h m s < <(qstat -f "$PBS_JOBID" 2>/dev/null | sed -n 's/.*Resource_List.walltime = //p') || return 0
  s=$((10#$h * 3600 + 10#$m * 60 + 10#$s))
  echo "$((s - (s < 480 ? s / 4 : 120)))s"
}

# ---- the launch lines ----------------------------------------------------------------------------
# Sets `recipe_text` from a recipe. Reads at most the 1 MiB that Convoy accepts, and does not wait
# for a pipe that has taken its place.
read_recipe() {
  [[ -e $1 ]] || fail "there is no recipe $1; input/recipes/ has some"
  regular_file "$1" "the recipe"
  recipe_text=$(dd if="$1" iflag=nonblock bs=64K count=16 2>/dev/null | tr -d '\0') || fail "the recipe $1 cannot be read: check its permissions"
}

# Sets `recipe`, `recipe_text` and `args` from the arguments of a script: [RECIPE.cfg] [options].
read_arguments() {
  recipe='' recipe_text='' args=()
  if [[ $# -gt 0 && $1 != -* ]]; then
    recipe=$1
    read_recipe "$recipe"
    args=(--config "$recipe")
    shift
  fi
  args+=("$@")
}
given() { # succeeds if the arguments or the recipe have this option
  local a
  for a in "${args[@]}"; do [[ $a != "--$1" && $a != "--$1="* ]] || return 0; done
  grep -Eq "^[[:space:]]*$1[[:space:]]*=" <<<"$recipe_text"
}
# standard OPTION VALUE: adds the option unless the arguments or the recipe have it.
standard() { given "$1" || args+=("--$1" "$2"); }
value_of() { # prints the value of an option in `args`
  local i
  for i in "${!args[@]}"; do
    [[ ${args[i]} != "--$1" ]] || echo "${args[i + 1]:-}"
    [[ ${args[i]} != "--$1="* ]] || echo "${args[i]#*=}"
  done
}

# Prints text that differs between model files; empty if there is none. A finished training has
# written one.
model_written() { stat -c '%i %y' "$output/model.h5" 2>/dev/null || true; }

# Succeeds if the run was done before and kept no checkpoint: then a training writes no model. With
# a checkpoint it writes its model again, however many steps are left.
is_done() {
  local kept=("$output"/checkpoints/step-*.h5) lines=$output/metrics.jsonl size
  [[ ! -e ${kept[0]} && -f $lines ]] && size=$(stat -Lc %s "$lines" 2>/dev/null) || return 1
  # The last line is in the last MiB. A pipe that has taken the file's place is not waited for.
  dd if="$lines" iflag=nonblock,skip_bytes skip=$((size > 1 << 20 ? size - (1 << 20) : 0)) bs=1M count=1 2>/dev/null |
    tail -n 1 | grep -q '"done"'
}

# train_on DEVICE [RECIPE.cfg] [options of convoy train]: trains on all ranks of the job, from the
# newest checkpoint if there is one. elastic_nodes=N: trains like N whole nodes, on any number of
# nodes.
train_on() {
  local device=$1 data limit before
  read_arguments "${@:2}"
  standard data "${CONVOY_DATA:-input/cifar10}"
  standard output "${CONVOY_OUTPUT:-$runs_folder/$(job_name)-$(job_id)}"
  standard resume auto
  standard device "$device"
  [[ -z ${elastic_nodes:-} ]] || given accumulate || standard virtual-ranks $((elastic_nodes * gpus_per_node))
  data=$(value_of data) output=$(value_of output)
  output_place=$(readlink -m "$output")
  [[ -z $data || -e $data/manifest.json ]] ||
    fail "there is no data set in $data: 'make data' fetches CIFAR-10, 'build/convoy convert' makes others; --data DIR, or CONVOY_DATA in the site file, says where it is"
  find_launcher
  if [[ $scheduler == pbs ]] && limit=$(pbs_time_limit) && [[ -n $limit ]]; then standard time-limit "$limit"; fi
  retries=${CONVOY_RETRIES:-3}
  [[ $retries =~ ^[0-9]+$ ]] || fail "CONVOY_RETRIES=$retries is not a number: say how often a job that lost a host is put back"
  echo "convoy job: $(job_name) $(job_id) in $output: $(quoted "${launch[@]}" "${convoy[@]}" train "${args[@]}")"
  before=$(model_written)
  supervise "${launch[@]}" "${convoy[@]}" train "${args[@]}"
  # If a daemon is killed on another host, mpirun of OpenMPI 5.0.7 ends with 0. A run that was done
  # before, and kept no checkpoint, writes nothing.
  if ((code == 0)) && [[ ${launch[0]} == mpirun && $(model_written) == "$before" ]] &&
    ! given dry-run && ! given help && ! is_done; then
    echo "convoy job: mpirun ended with 0, but the training has written no model: a host or a connection is lost"
    code=$daemon_lost
  fi
  finish
}

# sweep_on DEVICE OPTION=V,V,... [RECIPE.cfg] [options]: trains with this array element's value of
# the option. A finished run keeps no checkpoint, unless --keep is given.
sweep_on() {
  local device=$1 option=${2:-} index=${SLURM_ARRAY_TASK_ID:-${PBS_ARRAY_INDEX:-0}} values id
  [[ $option == *=* ]] || fail "the first argument is what to vary, as in lr=0.05,0.1,0.2"
  IFS=, read -ra values <<<"${option#*=}"
  option=${option%%=*}
  shift 2
  if [[ $index -ge ${#values[@]} ]]; then
    echo "convoy job: $option has ${#values[@]} values; nothing for element $index"
    exit 0
  fi
  id=$(job_id)
  read_arguments "$@"
  given keep || set -- "$@" --keep 0
  CONVOY_OUTPUT=$runs_folder/$(job_name)-${id%%[_[]*}/$option-${values[index]}
  again="jobs/pbs/1gpu.pbs $(quoted "$@" "--$option" "${values[index]}")"
  train_on "$device" "$@" "--$option" "${values[index]}"
}

# convert_on [arguments of convoy convert]: if interrupted, it goes back into the queue, and then
# continues where it was.
convert_on() {
  local limit silent=''
  find_launcher
  # Slurm sends USR1 before the time is over.
  if [[ $scheduler == pbs ]] && limit=$(pbs_time_limit) && [[ -n $limit ]]; then
    launch=(timeout -s USR1 -k 60 "$limit" "${launch[@]}")
  fi
  run_command convert "$@"
  if ((code == 124)) || [[ -n $asked && $code -ne 0 ]]; then
    code=85 output=$runs_folder
    requeue "the conversion is not complete"
  fi
  exit "$code"
}
# evaluate_on DEVICE [options of convoy evaluate]
evaluate_on() {
  find_launcher
  run_command evaluate --device "$1" "${@:2}"
  exit "$code"
}

# accept_on DEVICE [options of convoy accept]: the reports are beside the log, so that their folder
# is known if the job is killed.
accept_on() {
  local silent='' lost
  recipe_text='' args=("${@:2}")
  standard output "${CONVOY_OUTPUT:-$runs_folder/$(job_name)-$(job_id)}"
  output=$(value_of output)
  find_launcher
  run_command accept --device "$1" "${args[@]}"
  [[ ! $code =~ ^[0238]$ ]] || exit "$code"
  if [[ -z $asked ]] && lost_a_host && [[ -n $silent ]]; then
    echo "convoy job: exit $code, $lost; repair it, or test the others (Slurm: --exclude=${silent// /,})"
  fi
  [[ ! -e $output/accept.json ]] ||
    echo "convoy job: exit $code, not finished; to continue on the same hosts, repeat the options with --output $(quoted "$output") --resume"
  exit "$code"
}
run_command() {
  echo "convoy job: $(job_name) $(job_id): $(quoted "${launch[@]}" "${convoy[@]}" "$@")"
  supervise "${launch[@]}" "${convoy[@]}" "$@"
}

source jobs/matrix.sh
