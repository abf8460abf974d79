"""An example of ReFrame's settings for a cluster with Slurm. Copy it, and change each line with a comment."""

site_configuration = {
    "systems": [
        {
            "name": "mysite",  # predict --system mysite:gpu
            "hostnames": ["login.*"],  # a pattern of the hosts where you call reframe
            "partitions": [
                {
                    "name": "gpu",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    # Whole nodes; Convoy gives each rank one of the GPUs. Add your account here.
                    "access": ["--partition=gpu", "--gpus-per-node=8", "--cpus-per-task=4", "--exclusive"],
                    # OpenMPI's ranks find one another by PMIx. srun does not take the number of
                    # cores per task from sbatch.
                    "env_vars": [["SLURM_MPI_TYPE", "pmix"], ["SRUN_CPUS_PER_TASK", "4"]],
                    "environs": ["builtin"],  # or an environment with the modules that Convoy was built with
                    "max_jobs": 8,  # queued at a time
                }
            ],
        }
    ],
}
