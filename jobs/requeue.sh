# shellcheck shell=bash disable=SC2154
# Sourced by common.sh: steps after a launch. A run that has checkpointed (exit 85) always goes back
# into the queue; a training that lost a host does so CONVOY_RETRIES times.
retries=0 # train_on sets it for its launch; a benchmark is not tried again

# Ends the job with `code`. First puts it back into the queue, if that helps and its user is not
# cancelling it.
finish() {
  local silent='' lost
  # The launcher was signalled before it knew what to do.
  if [[ -n $asked ]] && ((code == 138 || code == 143)); then code=85; fi
  if ((code == 85)); then
    requeue checkpointed
  elif [[ -z $asked ]] && lost_a_host && retry_left; then
    requeue "exit $code, $lost"
  fi
  exit "$code"
}

requeue() { # WHY
  case $scheduler in
    slurm) requeue_slurm "$1" ;;
    pbs) requeue_pbs "$1" ;;
    none) echo "convoy job: $1; the same command with --output $(quoted "$output") resumes this run" ;;
  esac
}

requeue_slurm() { # WHY
  local state tries=0
  # A job with a dead host would stay completing until Slurm marks that host down. Slurm 22.05 would
  # then start it without its GPUs. Slurm requeues it at that time.
  if [[ -n $silent ]]; then
    echo "convoy job: $1; Slurm requeues the job when it has marked that host down (SlurmdTimeout)"
    sleep 900 & # in the background, so that Slurm's signal reaches this shell at once
    wait $! || true
    [[ -z $asked ]] || return 0
  fi
  state=$(squeue -h -j "$(job_id)" -o %T) || state=RUNNING # the controller is busy
  if [[ $state != RUNNING ]]; then
    echo "convoy job: $1; the job is $state and stays so"
    return
  fi
  echo "convoy job: $1; back into the queue"
  until scontrol requeue "$(job_id)"; do
    ((++tries < 6)) || break
    sleep 5
  done
}

# Only operators may call PBS's qrerun, so otherwise a copy of the job takes over. After a TERM
# (qdel, or a requeue by PBS itself) there is no copy.
requeue_pbs() { # WHY
  local script=jobs/pbs/${PBS_JOBNAME#convoy-}.pbs options=${CONVOY_SUBMIT:+$CONVOY_SUBMIT } by_hand word id
  word=$(quoted "$script")
  by_hand="CONVOY_OUTPUT=$(quoted "$output") jobs/submit.sh $options${again:-$word ${CONVOY_ARGS:-}}"
  [[ -z ${CELL:-} ]] || by_hand='call scaling.sh again'
  export CONVOY_OUTPUT=$output CONVOY_FIRST_JOB=${CONVOY_FIRST_JOB:-$(job_id)}
  if [[ $asked == TERM ]]; then
    echo "convoy job: $1; ended by PBS, and only PBS starts it again. To resume by hand: $by_hand"
  elif jobs/shield.sh qrerun "$PBS_JOBID" 2>/dev/null; then # qrerun sends TERM to all processes of the job
    echo "convoy job: $1; back into the queue"
  elif [[ -z ${PBS_ARRAY_INDEX:-}${CELL:-} && -e $script ]]; then
    if id=$(eval "jobs/submit.sh $options-W depend=afterany:$PBS_JOBID $word ${CONVOY_ARGS:-}"); then
      echo "convoy job: $1; continues as job $id"
    else
      echo "convoy job: $1, but it could not be submitted from here. To resume: $by_hand"
    fi
  else
    echo "convoy job: $1. To resume: $by_hand"
  fi
}

# ---- lost hosts ----------------------------------------------------------------------------------
# Succeeds if the launch failed because a host is missing. Sets `silent`, the hosts that do not
# answer now, and `lost`, a text about them. Exit 6 is Convoy's for failed communication; 205 and
# 213 are those of mpirun of OpenMPI 4.1 and 5.0 when a daemon is gone. With other codes a host must
# be silent; 2 to 5 and 7 are Convoy's, for other failures.
daemon_lost=205
lost_a_host() {
  [[ $scheduler != none && ! $code =~ ^[02-57]$ ]] || return 1
  silent=$(silent_hosts | sort | paste -sd ' ' -)
  # If even this host does not answer, the check itself does not work.
  [[ $silent != "$(hosts_of_job | sort | paste -sd ' ' -)" ]] || silent=''
  lost=${silent:+no answer from $silent}
  : "${lost:=no host lost now}"
  [[ -n $silent ]] || ((code == 6 || code == daemon_lost || code == 213))
}

silent_hosts() {
  local host
  for host in $(hosts_of_job); do { answers "$host" </dev/null &>/dev/null || echo "$host"; } & done
  wait
}
hosts_of_job() { if [[ $scheduler == slurm ]]; then scontrol show hostnames; else cut -d ' ' -f 1 "$hosts"; fi; }
answers() { # succeeds if a command starts there within 30 s
  local run_on
  read -ra run_on <<<"${OMPI_MCA_plm_rsh_agent:-}"
  [[ $scheduler != slurm ]] || run_on=(srun --overlap --nodes=1 --ntasks=1 --nodelist)
  timeout -s KILL 30 "${run_on[@]}" "$1" true
}

# Counts in the run folder, which requeued jobs and copies share. Each line has the job's first
# number, so that a run that its user submits again has all its tries. Other users may be able to
# put a link in the place of the folder, so this works in the current folder, once that is known to
# be the run's (`output_place`, from before the launch).
retry_left() (
  ((retries > 0)) || return 1
  first=${CONVOY_FIRST_JOB:-$(job_id)}
  [[ $(readlink -m "$output") != "$output_place" ]] || mkdir -p "$output"
  if ! CDPATH='' cd -- "$output" 2>/dev/null || [[ $(env pwd -P) != "$output_place" ]]; then
    echo "convoy job: exit $code, $lost; not put back, because $output was exchanged: start the job again, in a folder where others may not rename"
    return 1
  fi
  # Links are neither read nor written through, and a new file replaces the old one.
  text=$([[ ! -f retries ]] || dd if=retries iflag=nofollow,nonblock bs=64K count=1 2>/dev/null | tr -d '\0') || true
  tries=$(awk -v job="$first" '$1 == job' <<<"$text" | wc -l)
  if ((tries >= retries)); then
    echo "convoy job: exit $code, $lost; was put back $tries times and is not again (CONVOY_RETRIES=$retries)"
    return 1
  fi
  new=$(mktemp -u retries-XXXXXX)
  # dd makes the file itself, or fails.
  printf '%s\n' ${text:+"$text"} "$first $(date +%FT%T) exit $code, $lost" | dd of="$new" conv=excl oflag=nofollow 2>/dev/null || return 1
  mv -fT "$new" retries
)

# Slurm gives a requeued job fewer nodes only if it asked for no number of tasks. The ranks of a
# node share the processors of its one task there.
deal_nodes() { # RANKS-A-NODE
  export SLURM_NTASKS_PER_NODE=$1 SLURM_NTASKS=$(($1 * SLURM_NNODES)) SLURM_TASKS_PER_NODE="$1(x$SLURM_NNODES)"
  export SLURM_NPROCS=$SLURM_NTASKS SLURM_CPUS_PER_TASK=$((SLURM_CPUS_PER_TASK / $1))
}
