# shellcheck shell=bash
# Sourced by every job script from the repository's folder. Reads the site file, finds out where the
# ranks go, and gives the scripts their launch lines: train_on, sweep_on, bench_on. jobs/requeue.sh
# says which jobs go back into the queue, jobs/outer_job.sh what a job does not take over.
set -euo pipefail

fail() {
  echo "convoy job: $*" >&2
  exit 2
}

# Words as they can be pasted into a shell; plain ones stay as they are.
quoted() {
  local word words=() quote="'\\''"
  for word in "$@"; do
    [[ $word =~ ^[[:alnum:]%+,./:=@_-]+$ ]] || word="'${word//\'/$quote}'"
    words+=("$word")
  done
  local IFS=' '
  printf '%s\n' "${words[*]}"
}

source jobs/outer_job.sh

# PBS takes the values of variables apart at commas and backslashes, and blanks off their ends:
# values that hold such come in base64.
packed() { if [[ $1 == *[^a-zA-Z0-9\ ./:=_+-]* || $1 == " "* || $1 == *" " ]]; then echo "base64:$(base64 -w0 <<<"$1")"; else echo "$1"; fi; }
unpacked() { if [[ $1 == base64:* ]]; then base64 -d <<<"${1#base64:}"; else echo "$1"; fi; }
passed_names="CONVOY_SITE CONVOY_OUTPUT CONVOY_DATA CONVOY_RETRIES CONVOY_FIRST_JOB CELL BATCHES REPEATS"
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
  [[ -e ${files[0]} ]] || return 0 # none: the scheduler's defaults
  set +eu                          # module systems do not stand these
  # shellcheck disable=SC1090
  source "${files[0]}"
  set -eu
}
read_site

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

# ---- one launch, and what comes after it ---------------------------------------------------------
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
  if [[ -n $asked ]]; then # it came before there was anything to stop
    code=85
    return
  fi
  "$@" </dev/null & # PBS may feed this script to bash through stdin
  child=$!
  [[ -z $asked ]] || kill -USR1 "$child" # it came before the child
  interrupted=yes
  while [[ -n $interrupted ]]; do
    interrupted='' code=0
    wait "$child" || code=$?
  done
  child=''
}

source jobs/requeue.sh

# Convoy stops in time for this. Slurm is asked first: before 23.02 it does not set the variable in
# a job, and one of an outer job would stay.
slurm_end_time() {
  local end
  end=$(SLURM_TIME_FORMAT=standard squeue -h -j "$(job_id)" -o %e 2>/dev/null) || end=''
  [[ -n $end ]] || end=${SLURM_JOB_END_TIME:-}
  [[ $end != *T* ]] || end=$(date -d "$end" +%s) || return 0
  if [[ $end =~ ^[0-9]+$ ]]; then export SLURM_JOB_END_TIME=$end; else unset SLURM_JOB_END_TIME; fi
}

# Seconds until PBS ends the job, less two minutes, or less a quarter of a time under eight minutes;
# empty if it cannot be known. (Slurm's limit is in SLURM_JOB_END_TIME.)
pbs_time_limit() {
  local h m s
  IFS=: read -r h m s < <(qstat -f "$PBS_JOBID" 2>/dev/null | sed -n 's/.*Resource_List.walltime = //p') || return 0
  s=$((10#$h * 3600 + 10#$m * 60 + 10#$s))
  echo "$((s - (s < 480 ? s / 4 : 120)))s"
}

# ---- the launch lines ----------------------------------------------------------------------------
# Sets `recipe` and `args` from the arguments of a script: [RECIPE.cfg] [options].
read_arguments() {
  recipe='' args=()
  if [[ $# -gt 0 && $1 != -* ]]; then
    recipe=$1
    [[ -e $recipe ]] || fail "there is no recipe $recipe; input/recipes/ has some"
    args=(--config "$recipe")
    shift
  fi
  args+=("$@")
}
given() { # whether the arguments or the recipe have this option
  local a
  for a in "${args[@]}"; do [[ $a != "--$1" && $a != "--$1="* ]] || return 0; done
  [[ -n $recipe ]] && grep -Eq "^[[:space:]]*$1[[:space:]]*=" "$recipe"
}
# standard OPTION VALUE: adds it where neither the arguments nor the recipe have it.
standard() { given "$1" || args+=("--$1" "$2"); }
value_of() { # of an option in `args`
  local i
  for i in "${!args[@]}"; do
    [[ ${args[i]} != "--$1" ]] || echo "${args[i + 1]:-}"
    [[ ${args[i]} != "--$1="* ]] || echo "${args[i]#*=}"
  done
}

# Tells one model file from the next; empty if there is none. A training that is done has written
# one.
model_written() { stat -c '%i %y' "$output/model.h5" 2>/dev/null || true; }

# Whether the last thing that the run recorded is that it was done.
is_done() { tail -n 1 "$output/metrics.jsonl" 2>/dev/null | grep -q '"done"'; }

# train_on DEVICE [RECIPE.cfg] [options of convoy train]: trains on all ranks of the job, going on
# from the newest checkpoint.
train_on() {
  local device=$1 data limit before
  read_arguments "${@:2}"
  standard data "${CONVOY_DATA:-input/cifar10}"
  standard output "${CONVOY_OUTPUT:-output/$(job_name)-$(job_id)}"
  standard resume auto
  standard device "$device"
  [[ -z ${virtual_ranks:-} ]] || given accumulate || standard virtual-ranks "$virtual_ranks"
  data=$(value_of data) output=$(value_of output)
  [[ -z $data || -e $data/manifest.json ]] ||
    fail "there is no data set in $data: 'make data' fetches CIFAR-10, 'build/convoy convert' makes others; --data DIR, or CONVOY_DATA in the site file, says where it is"
  find_launcher
  if [[ $scheduler == pbs ]] && limit=$(pbs_time_limit) && [[ -n $limit ]]; then standard time-limit "$limit"; fi
  retries=${CONVOY_RETRIES:-3}
  [[ $retries =~ ^[0-9]+$ ]] || fail "CONVOY_RETRIES=$retries is not a number: say how often a job that lost a host is put back"
  echo "convoy job: $(job_name) $(job_id) in $output: $(quoted "${launch[@]}" "${convoy[@]}" train "${args[@]}")"
  before=$(model_written)
  supervise "${launch[@]}" "${convoy[@]}" train "${args[@]}"
  # When a daemon is killed on another host, mpirun of OpenMPI 5.0.7 ends with 0. A run that was
  # done before, and kept no checkpoint, writes nothing.
  if ((code == 0)) && [[ ${launch[0]} == mpirun && $(model_written) == "$before" ]] && ! given dry-run && ! given help && ! is_done; then
    echo "convoy job: mpirun ended with 0, but the training has written no model: a host or a connection is lost"
    code=$daemon_lost
  fi
  finish
}

# sweep_on DEVICE OPTION=V,V,... [RECIPE.cfg] [options]: this array element's value of the option.
# A run that is done keeps no checkpoint, unless --keep says so.
sweep_on() {
  local device=$1 option=${2:-} index=${SLURM_ARRAY_TASK_ID:-${PBS_ARRAY_INDEX:-0}} values id
  [[ $option == *=* ]] || fail "the first argument is what to vary, as in lr=0.05,0.1,0.2"
  IFS=, read -ra values <<<"${option#*=}"
  option=${option%%=*}
  shift 2
  [[ $index -lt ${#values[@]} ]] || { echo "convoy job: $option has ${#values[@]} values; nothing for element $index"; exit 0; }
  id=$(job_id)
  read_arguments "$@"
  given keep || set -- "$@" --keep 0
  CONVOY_OUTPUT=output/$(job_name)-${id%%[_[]*}/$option-${values[index]}
  again="jobs/pbs/1gpu.pbs $(quoted "$@" "--$option" "${values[index]}")"
  train_on "$device" "$@" "--$option" "${values[index]}"
}

# bench_on DEVICE MODEL OUT [options of convoy bench]: BATCHES x REPEATS cells on the ranks of this
# job, one folder each. A folder gets its name when its cell has ended, so a second call does what
# is missing. No memory (exit 7) is a result: the file `oom`.
bench_on() {
  local device=$1 model=${2:-} out=${3:-} batch repeat cell partial
  [[ -n $out && -n ${CELL:-} ]] || fail "the cells of the scaling matrix are submitted by scaling.sh"
  shift 3
  output=$out
  args=("$@")
  recipe=$(value_of config)
  [[ -z $recipe || -e $recipe ]] || fail "there is no recipe $recipe; input/recipes/ has some"
  standard steps 100
  standard device "$device"
  # Published figures of these models are of ImageNet's images and classes. Others have their usual
  # ones.
  if [[ $model == resnet* ]] && ! given data; then
    standard image-size 224x224x3
    standard classes 1000
  fi
  find_launcher
  for repeat in $(seq "$REPEATS"); do
    for batch in $BATCHES; do
      cell=$out/$CELL-b$batch-r$repeat partial=$out/.$CELL-b$batch-r$repeat
      [[ ! -e $cell ]] || continue
      rm -rf "$partial"
      mkdir -p "$out"
      supervise "${launch[@]}" "${convoy[@]}" bench --model "$model" --batch-per-rank "$batch" --output "$partial" "${args[@]}"
      [[ -z $asked ]] || code=85 # the job ends soon, and then goes on with the next cell
      case $code in
        0) ;;
        7) mkdir -p "$partial" && touch "$partial/oom" ;;
        *) finish ;;
      esac
      mv -T "$partial" "$cell"
      echo "convoy job: $cell$([[ $code -eq 0 ]] || echo ': out of memory')"
    done
  done
}

# predict_scaling MODEL CELLS: what cells should reach, by the file $CLUSTER; never ends the script.
predict_scaling() {
  local model=$1 cells=$2 cell option ranks=() more=()
  if [[ ${CLUSTER:-} != *.cluster ]]; then # some sites have a variable CLUSTER of their own
    echo "to see first what to expect: CLUSTER=FILE.cluster, in the shell or the site file; jobs/site/ has some" >&2
    return 0
  fi
  for cell in $cells; do ranks+=("${cell#*n}"); done
  for option in precision image-size classes; do
    [[ -z $(value_of "$option") ]] || more+=("--$option" "$(value_of "$option")")
  done
  [[ " ${more[*]} " == *" --precision "* ]] || more+=(--precision f32) # bench's default
  (
    find_convoy
    "${convoy[@]}" predict --model "$model" --batch-per-rank "${BATCHES##* }" --cluster "$CLUSTER" \
      --ranks "$(IFS=, && echo "${ranks[*]%g}")" "${more[@]}"
  ) || echo "convoy job: there is no prediction; the matrix is submitted all the same" >&2
}

# scaling SUBMIT [MODEL] [OUT] [options of convoy bench]: calls SUBMIT CELL NODES GPUS_A_NODE MODEL
# OUT [options] for every allocation of the matrix that has something left to do.
scaling() {
  local submit=$1 model=${2:-resnet50} out=${3:-output/scaling-${2:-resnet50}} cell nodes gpus batch repeat left
  shift $(($# < 3 ? $# : 3))
  export BATCHES=${BATCHES:-32 64 128 160 256} REPEATS=${REPEATS:-5} CELL
  CELLS=${CELLS:-1n1g 1n2g 1n4g 1n8g 2n16g 4n32g}
  for cell in $CELLS; do
    [[ $cell =~ ^[0-9]+n[0-9]+g$ ]] || fail "CELLS: $cell is not of the form 2n16g (nodes, GPUs of all nodes)"
  done
  args=("$@")
  predict_scaling "$model" "$CELLS"
  for cell in $CELLS; do
    nodes=${cell%n*} gpus=${cell#*n} gpus=${gpus%g}
    left=0
    for batch in $BATCHES; do
      for repeat in $(seq "$REPEATS"); do [[ -e $out/$cell-b$batch-r$repeat ]] || left=$((left + 1)); done
    done
    ((left > 0)) || { echo "$cell: done"; continue; }
    CELL=$cell
    "$submit" "$nodes" $((gpus / nodes)) "$model" "$out" "$@"
  done
  echo "when they have ended: build/convoy report --scaling $(quoted "$out")/*"
}
