"""A job submitted from inside another job inherits nothing that describes the outer one. Needs no scheduler."""
import os
import re
import unittest

import words

# Variables that `srun --pty bash` leaves in a job of 2 GiB per core on Slurm 23.11, with PMIx by
# default.
STEP = {
    "SLURM_CPU_BIND": "quiet,mask_cpu:0x3", "SLURM_CPU_BIND_LIST": "0x3", "SLURM_CPU_BIND_TYPE": "mask_cpu:",
    "SLURM_CPU_BIND_VERBOSE": "quiet", "SLURM_MEM_PER_CPU": "2048", "SLURM_GPUS_PER_NODE": "1",
    "SLURM_TRES_PER_TASK": "cpu=2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_ID": "0", "SLURM_EXPORT_ENV": "NONE",
    "PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.pmix.7.0", "PMIX_SERVER_URI2": "pmix-server.7;tcp4://10.0.0.1:5",
}  # fmt: skip
# Variables that other options of an outer job leave.
OPTIONS = {
    "SLURM_MEM_PER_NODE": "4096", "SLURM_MEM_PER_GPU": "1024", "SLURM_MEM_BIND": "quiet,local", "SLURM_GPU_BIND":
    "single:1", "SLURM_TRES_BIND": "gres/gpu:none", "SLURM_CPUS_PER_GPU": "6", "SLURM_GPUS": "1",
    "SLURM_GPUS_PER_TASK": "1", "SLURM_GPUS_PER_SOCKET": "1", "SLURM_GRES": "gpu:1", "SLURM_NTASKS_PER_GPU": "2",
    "SLURM_NTASKS_PER_SOCKET": "2", "SLURM_THREADS_PER_CORE": "1", "SLURM_HET_SIZE": "2", "PMI_RANK": "3",
    "PMI_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3", "OMPI_UNIVERSE_SIZE": "4", "OMPI_MCA_ess_base_vpid": "3",
    "OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.1:5", "PRTE_MCA_prte_tmpdir_base": "/tmp/convoy-job-a1B2c3",
    "OMPI_MCA_plm_rsh_agent": "/tmp/convoy-job-a1B2c3/here/jobs/shield.sh ssh",
}  # fmt: skip
# Variables of the job itself, and those that users set on purpose.
KEPT = {
    "SLURM_JOB_ID": "8", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NTASKS": "16",
    "SLURM_NTASKS_PER_NODE": "8", "SLURM_CPUS_PER_TASK": "4", "SLURM_CONF": "/etc/slurm.conf", "SLURM_CLUSTERS":
    "here", "SLURM_PMIX_FENCE": "tree", "SBATCH_PARTITION": "gpu", "SBATCH_MEM_PER_NODE": "8G", "PMIX_MCA_psec":
    "native", "OMPI_MCA_btl": "^openib", "OMPI_MCA_orte_tmpdir_base": "/scratch", "NCCL_DEBUG": "WARN",
}  # fmt: skip


def variables(text):
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.M))


class OuterJob(words.Words):
    def setUp(self):
        super().setUp()
        for program in ("sbatch", "srun"):
            self.stub(
                f"bin/{program}", f"[[ $* != *--mpi=list* ]] || {{ echo pmix; exit; }}; env >{self.dir}/{program}.env"
            )
        self.stub("bin/squeue", "exit 1")

    def seen_by(self, program, command, **environment):
        code, _, err = self.bash(command, **environment)
        self.assertEqual(code, 0, err)
        with open(f"{self.dir}/{program}.env") as f:
            return variables(f.read())

    def check(self, seen):
        self.assertEqual({name: seen[name] for name in {**STEP, **OPTIONS} if name in seen}, {})
        self.assertEqual({name: seen.get(name) for name in KEPT}, KEPT)

    def test_a_submission_from_inside_a_job(self):
        self.check(
            self.seen_by("sbatch", "jobs/submit.sh jobs/slurm/2node.sbatch --data data", **STEP, **OPTIONS, **KEPT)
        )
        self.check(self.seen_by("sbatch", "CELLS=1n1g jobs/slurm/scaling.sh", **STEP, **OPTIONS, **KEPT))

    def test_ranks_of_a_job_that_was_submitted_from_inside_another(self):
        self.check(self.seen_by("srun", "source jobs/common.sh; train_on cpu --data data", **STEP, **OPTIONS, **KEPT))

    def test_the_site_file_is_read_after_it(self):
        self.site("a", "export SLURM_CPU_BIND=none SLURM_MEM_PER_NODE=0")
        seen = self.seen_by("srun", "source jobs/common.sh; train_on cpu --data data", **STEP, **KEPT)
        self.assertEqual((seen["SLURM_CPU_BIND"], seen["SLURM_MEM_PER_NODE"]), ("none", "0"))

    def test_the_ad_hoc_script_goes_to_its_own_hosts(self):
        self.stub("bin/agent", "echo found")
        self.stub("bin/mpirun", f'echo "mpirun $*" >{self.dir}/words; env >{self.dir}/mpirun.env')
        with open(f"{self.dir}/hosts", "w") as f:
            f.write("elsewhere slots=2\n")
        open(f"{self.dir}/nodes", "w").close()
        for job in (KEPT, {"PBS_JOBID": "7.server", "PBS_NODEFILE": f"{self.dir}/nodes"}):
            seen = self.seen_by(
                "mpirun",
                "jobs/adhoc/run.sh --data data --dry-run",
                HOSTFILE="hosts",
                OMPI_MCA_plm_rsh_agent="agent",
                **job,
            )
            self.assertRegex(words.lines_of(f"{self.dir}/words")[0], "--hostfile /tmp/convoy-job-[^/]+/hosts ")
            self.assertFalse(
                {"SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID"} & set(seen), "mpirun would go to that job's nodes only"
            )

    def end_time(self, squeue):
        self.stub("bin/squeue", squeue)
        seen = self.seen_by(
            "srun",
            "source jobs/common.sh; train_on cpu --data data",
            SLURM_JOB_ID="7",
            SLURM_JOB_END_TIME="1893456000",
            TZ="UTC",
        )
        return seen.get("SLURM_JOB_END_TIME")

    def test_the_end_of_a_job_is_what_slurm_says_of_it(self):
        self.assertEqual(self.end_time("echo 2030-01-02T00:00:00"), "1893542400", "the outer job ends a day before")
        self.assertIsNone(self.end_time("echo N/A"), "a job without an end")
        self.assertEqual(self.end_time("exit 1"), "1893456000", "Slurm does not answer")

    def job_id(self, job, says=None):
        if says is not None:
            self.stub("bin/squeue", f"printf '{says}'")
        code, out, err = self.bash(
            "source jobs/common.sh; job_id", SLURM_JOB_ID=job, SLURM_ARRAY_JOB_ID="7", SLURM_ARRAY_TASK_ID="2"
        )
        self.assertEqual(code, 0, err)
        return out.strip()

    def test_an_array_that_submitted_a_job_is_not_that_job(self):
        self.assertEqual(self.job_id("12", "12 12\\n"), "12")
        self.assertEqual(self.job_id("9", "9 7\\n"), "7_2", "an element of the array itself")
        self.assertEqual(self.job_id("7", "8 7\\n9 7\\n7 7\\n"), "7_2", "the last element has the array's number")
        self.stub("bin/squeue", "echo slurm_load_jobs error >&2; exit 1")
        self.assertEqual(self.job_id("9"), "7_2", "nobody says otherwise")


if __name__ == "__main__":
    unittest.main(verbosity=2)
