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
                        ["OMPI_MCA_hwloc_base_binding_policy", "none"],
                        ["PRTE_MCA_hwloc_default_binding_policy", "none"],
                    ],
                    "environs": ["builtin"],
                    "max_jobs": 1,
                }
            ],
        }
    ],
}
