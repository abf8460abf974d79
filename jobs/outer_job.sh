# shellcheck shell=bash
# Sourced by common.sh, before the site file: removes from the environment what describes another
# job. People submit from inside a job (an interactive shell, JupyterHub). sbatch carries that
# shell's variables into the new job, where srun takes them for the new job's settings.

# Masks of the outer step's cores: srun fails with "CPU binding outside of job step allocation".
outer='SLURM_(CPU|MEM|GPU|TRES)_BIND'
# Slurm adds this job's value beside the outer one, and srun then calls them "mutually exclusive".
# Without any value, each step has all the memory that the job has on a node.
outer+='|SLURM_MEM_PER_(CPU|GPU|NODE)$'
# The outer job's share of GPUs, tasks and threads; without them, a step has all of its job's GPUs.
outer+='|SLURM_(CPUS_PER_GPU|GPUS|GRES|TRES_PER_TASK|NTASKS_PER_(CORE|GPU|SOCKET|TRES)|THREADS_PER_CORE)'
# The list of variables that reach the ranks: sbatch does not replace the outer job's list. NONE
# would keep the site file's settings from the ranks.
outer+='|SLURM_EXPORT_ENV$'
outer+='|SLURM_(STEP_|STEPID$|HET_)'
# A rank's place in a world that is not this job's; mpirun refuses to start inside another one.
outer+='|PMIX_([^M]|M[^C])|PMI_(RANK|SIZE|FD|JOBID)$'
outer+='|OMPI_(COMM_WORLD|UNIVERSE_SIZE|APP_CTX|FIRST_RANKS|NUM_APP_CTX|FILE_LOCATION|COMMAND|ARGV)'
outer+='|OMPI_MCA_(ess|initial_wdir|orte_(ess|app_num|hnp_uri|local_daemon_uri|precondition|jobfam|top_session|num_nodes|bound|launch))'

forget_outer_job() {
  local name array
  for name in $(compgen -e | grep -E "^($outer)" || true); do unset "$name"; done
  # Folders and links of the outer job's launcher.sh, which are removed when it ends. Other users
  # could make them again.
  for name in OMPI_MCA_orte_tmpdir_base PRTE_MCA_prte_tmpdir_base; do [[ ${!name:-} != /tmp/convoy-job-* ]] || unset "$name"; done
  for name in OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent; do [[ ${!name:-} != */jobs/shield.sh\ * ]] || unset "$name"; done
  # An array element that submits a job leaves its numbers in it. Slurm knows which job they belong
  # to.
  [[ -n ${SLURM_JOB_ID:-} && -n ${SLURM_ARRAY_JOB_ID:-} ]] || return 0
  array=$(squeue -h -r -j "$SLURM_JOB_ID" -o '%A %F' 2>/dev/null | awk -v id="$SLURM_JOB_ID" '$1 == id { print $2 }') || return 0
  [[ -z $array || $array == "$SLURM_ARRAY_JOB_ID" ]] || unset SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID
}
forget_outer_job
unset outer
