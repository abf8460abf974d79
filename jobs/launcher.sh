# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by common.sh: decides where ranks run, and what starts them. find_launcher sets `launch`
# and `convoy`, the words before an executable's arguments.

# Ranks see all cores that the job has on their node, and take equal shares. mpirun's own binding
# would leave each one core; PBS's OMP_NUM_THREADS would give all cores to each.
mpirun=(mpirun --bind-to none)
unset OMP_NUM_THREADS

# hwloc, in mpirun and in the ranks, would ask X servers for GPUs. Where none runs, any user of the
# node can answer in its place.
export HWLOC_COMPONENTS=${HWLOC_COMPONENTS--gl}

# OpenMPI 5's launcher reads these settings under other names.
for_openmpi_5() {
  [[ -z ${OMPI_MCA_plm_rsh_agent:-} ]] || export PRTE_MCA_plm_ssh_agent=$OMPI_MCA_plm_rsh_agent
  [[ -z ${OMPI_MCA_oob_tcp_if_include:-} ]] || export PRTE_MCA_prte_if_include=$OMPI_MCA_oob_tcp_if_include
}

# mpirun would keep its files in a folder of /tmp whose name other users can guess, and would use
# one that they made before. Sets `scratch`, a folder that is removed with this script. Other hosts
# get one of the same path, which stays there, empty: make_scratch_on. (PRTE is OpenMPI 5's
# launcher.)
make_scratch() {
  scratch=$(mktemp -d /tmp/convoy-job-XXXXXX)
  trap 'rm -rf "$scratch"' EXIT
  # On this host it is there already. A folder that another user made is not taken, and no link. One
  # look at it tells both, because another user may exchange the two.
  scratch_command="mkdir -m 700 $scratch 2>/dev/null; test \"\$(LC_ALL=C stat -c '%u %F' $scratch)\" = \"\$(id -u) directory\""
  export OMPI_MCA_orte_tmpdir_base=${OMPI_MCA_orte_tmpdir_base:-$scratch} PRTE_MCA_prte_tmpdir_base=${PRTE_MCA_prte_tmpdir_base:-$scratch}
}

make_scratch_on() { # HOST...
  local host remote
  read -ra remote <<<"${OMPI_MCA_plm_rsh_agent:-ssh}"
  for host in "$@"; do
    "${remote[@]}" "$host" "$scratch_command" </dev/null || fail "$host: $scratch cannot be made, or another user has made it: start again"
  done
}

# Variables for ranks that mpirun starts over ssh or pbs_tmrsh, because these ranks inherit none:
# those that a site file and its modules set.
pass_environment() {
  local name
  for name in $(compgen -e | grep -E '^(NCCL|UCX|CONVOY)_|^LD_LIBRARY_PATH$' || true); do launch+=(-x "$name"); done
}

# Sets `launch`, the words before the executable's name.
find_launcher() {
  case $scheduler in
    slurm)
      [[ -z ${elastic_nodes:-} ]] || deal_nodes "$gpus_per_node"
      if [[ ${CONVOY_LAUNCHER:-srun} == srun && $(srun --mpi=list 2>&1) == *pmix* ]]; then
        launch=(srun --mpi=pmix --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}") # since Slurm 22.05 srun does not inherit it from sbatch
        # Under Slurm's default, ranks left OpenMPI 4.1.4's MPI_Init while others were still in its
        # first exchange, and the first message to one of those ended it. That was one launch in 20
        # of 32 ranks on two cores, and none in 80 with this setting.
        export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring}
      else
        make_scratch
        ((SLURM_NNODES == 1)) || srun --overlap --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" --ntasks-per-node=1 bash -c "$scratch_command" ||
          fail "$scratch cannot be made on every node, or another user has made it: start again"
        launch=("${mpirun[@]}") # reads the allocation itself
      fi
      slurm_end_time
      ;;
    pbs)
      [[ -e ${PBS_NODEFILE:-} ]] || fail "PBS_NODEFILE=${PBS_NODEFILE:-} is not there: this job has no nodes"
      make_scratch
      hosts=$scratch/hosts
      # One line per rank becomes one line per host, in PBS's order.
      awk '!n[$1]++ { order[++hosts] = $1 } END { for (i = 1; i <= hosts; i++) print order[i], "slots=" n[order[i]] }' "$PBS_NODEFILE" >"$hosts"
      launch=("${mpirun[@]}" --hostfile "$hosts")
      pass_environment
      shield_connections
      mapfile -t others < <(cut -d ' ' -f 1 "$hosts" | tail -n +2)
      make_scratch_on "${others[@]}"
      ;;
    none) [[ -n ${launch:-} ]] || fail "this is a job script: submit it with jobs/submit.sh, sbatch or qsub" ;;
  esac
  for_openmpi_5
  find_convoy
}

find_convoy() {
  if [[ -n ${CONVOY_COMMAND:-} ]]; then
    read -ra convoy <<<"$CONVOY_COMMAND" # for example 'apptainer exec --nv convoy.sif convoy'
  else
    convoy=(build/convoy)
    [[ -x build/convoy ]] || fail "build/convoy is not there: run make first (on a node like those of the job)"
  fi
}

# If PBS has pbs_tmrsh, remote ranks start under PBS, which then counts and ends them; otherwise
# over ssh. The paths are absolute, because mpirun's daemons on those hosts look for them too.
# mpirun splits this setting at blanks and colons. A path with such characters is replaced by a link
# that exists only on this host, and the daemons start no others.
shield_connections() {
  local here=$PWD tmrsh agent=ssh
  if [[ $here == *[[:space:]:]* ]]; then
    here=$scratch/here
    ln -s "$PWD" "$here"
    export OMPI_MCA_plm_rsh_no_tree_spawn=1 PRTE_MCA_plm_ssh_no_tree_spawn=1
  fi
  if tmrsh=$(command -v pbs_tmrsh); then agent="$here/jobs/pbs/agent.sh $tmrsh"; fi
  export OMPI_MCA_plm_rsh_agent="$here/jobs/shield.sh ${OMPI_MCA_plm_rsh_agent:-$agent}"
}
