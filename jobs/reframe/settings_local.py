"""ReFrame's settings for one machine without a scheduler: mpirun starts the ranks."""

site_configuration = {
    "systems": [
        {
            "name": "local",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "default",
                    "scheduler": "local",
                    "launcher": "mpirun",
                    # Ranks share all cores: mpirun would leave each only one.
                    "env_vars": [
                        ["HWLOC_COMPONENTS", "-gl"],  # hwloc would ask X displays, which any user may open
                        ["OMPI_MCA_hwloc_base_binding_policy", "none"],
                        ["PRTE_MCA_hwloc_default_binding_policy", "none"],
                    ],
                    # mpirun would use /tmp/ompi.HOST.UID even if another user has made it.
                    "prepare_cmds": [
                        "mpirun_folder=$(mktemp -d /tmp/convoy-mpirun-XXXXXX)",
                        "trap 'rm -rf \"$mpirun_folder\"' EXIT",
                        'export OMPI_MCA_orte_tmpdir_base="$mpirun_folder"',
                        'export PRTE_MCA_prte_tmpdir_base="$mpirun_folder"',
                    ],
                    "environs": ["builtin"],
                    "max_jobs": 1,
                }
            ],
        }
    ],
}
