"""Properties of the job scripts' text, and their output before anything starts. Needs neither root nor a scheduler."""
import glob
import os
import re
import shlex
import shutil
import subprocess
import unittest

import words
from words import JOBS, ROOT, lines_of

BATCH = {s: sorted(glob.glob(f"{JOBS}/{s}/*.{e}")) for s, e in (("slurm", "sbatch"), ("pbs", "pbs"))}
SHELL = sorted(glob.glob(f"{JOBS}/*.sh") + glob.glob(f"{JOBS}/*/*.sh"))
ALL = BATCH["slurm"] + BATCH["pbs"] + SHELL


def directive_errors(lines, prefix):
    """Returns errors in the directives of a script, as lines of text. PBS stops at the first line
    that is no directive."""
    errors = []
    at = [i for i, line in enumerate(lines) if line.startswith(prefix + " ")]
    if not at:
        return ["no directive"]
    between = lines[at[0] : at[-1] + 1]
    allowed = prefix + " " if prefix == "#PBS" else (prefix, "##SBATCH")
    errors += [f"between directives: {line}" for line in between if not line.startswith(allowed)]
    errors += [f"command before directives: {line}" for line in lines[: at[0]] if line and not line.startswith("#")]
    for line in between if prefix == "#PBS" else ():
        if not re.fullmatch(r"#PBS -[A-Za-z] [^ #]+", line):
            errors.append(f"PBS takes one option and one word without spaces: {line}")
        name = re.fullmatch(r"#PBS -N (.*)", line)
        if name and not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,14}", name.group(1)):
            errors.append(f"older PBS takes names of up to 15 characters: {line}")
        select = re.fullmatch(r"#PBS -l select=(.*)", line)
        if select:
            chunk = re.fullmatch(r"(\d+):ncpus=(\d+):mpiprocs=(\d+)(?::ngpus=(\d+))?:ompthreads=(\d+)", select.group(1))
            if not chunk:
                errors.append(f"select is not N:ncpus=:mpiprocs=[:ngpus=]:ompthreads=: {line}")
            elif chunk.group(4) not in (None, chunk.group(3)) or int(chunk.group(2)) != int(chunk.group(3)) * int(
                chunk.group(5)
            ):
                errors.append(f"ranks, GPUs, cores and threads do not fit: {line}")
    return errors


class Text(unittest.TestCase):
    def test_bash_reads_every_script(self):
        self.assertGreater(len(ALL), 15)
        for path in ALL + glob.glob(f"{JOBS}/site/*.env*"):
            with self.subTest(path):
                done = subprocess.run(["bash", "-n", path], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_shellcheck(self):
        if not shutil.which("shellcheck"):
            self.skipTest("shellcheck is not installed")
        scripts = [os.path.relpath(p, ROOT) for p in ALL + glob.glob(f"{ROOT}/tests/jobs/*.sh")]
        done = subprocess.run(["shellcheck", "-x", "-s", "bash", *scripts], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_both_schedulers_have_the_same_scripts(self):
        names = [{os.path.basename(p).split(".")[0] for p in paths} for paths in BATCH.values()]
        self.assertEqual(names[0], names[1])
        self.assertLessEqual(
            {"1gpu", "1node", "2node", "4node", "cpu", "array-sweep", "elastic", "convert", "evaluate"}, names[0]
        )
        for s in BATCH:
            self.assertTrue(os.access(f"{JOBS}/{s}/scaling.sh", os.X_OK))

    def test_directives(self):
        for scheduler, prefix in (("slurm", "#SBATCH"), ("pbs", "#PBS")):
            for path in BATCH[scheduler]:
                with self.subTest(path):
                    self.assertEqual(directive_errors(lines_of(path), prefix), [])

    def test_directive_rules_find_mistakes(self):
        good = ["#!/bin/bash", "#PBS -N x", "#PBS -l select=1:ncpus=8:mpiprocs=8:ngpus=8:ompthreads=1", "true"]
        self.assertEqual(directive_errors(good, "#PBS"), [])
        for at, line in (
            (2, "# comment"),
            (2, ""),
            (1, "true"),
            (2, "#PBS -q a b"),
            (2, "#PBS -r y # comment"),
            (2, "#PBS -N name-of-16-chars"),
            (2, "#PBS -l select=4:ncpus=8"),
            (2, "#PBS -l select=1:ncpus=8:mpiprocs=8:ngpus=4:ompthreads=1"),
        ):
            self.assertTrue(directive_errors(good[:at] + [line] + good[at:], "#PBS"), line)

    def test_a_script_is_directives_common_and_one_launch_line(self):
        launch = (
            r'(eval ")?(elastic_nodes=4 )?((train|sweep|bench|evaluate|accept)_on (cuda|cpu)|convert_on) '
            r'("\$@"|\$\{CONVOY_ARGS:-\}")'
        )
        for path in BATCH["slurm"] + BATCH["pbs"]:
            with self.subTest(path):
                commands = [line for line in lines_of(path) if line and not line.startswith("#")]
                self.assertEqual(len(commands), 2)
                self.assertIn("source jobs/common.sh || exit 2", commands[0])
                self.assertRegex(commands[1], launch)

    def test_headers_say_what_to_expect(self):
        for path in ALL:
            if os.path.basename(path) in (
                "common.sh",
                "launcher.sh",
                "matrix.sh",
                "outer_job.sh",
                "requeue.sh",
                "submit.sh",
                "shield.sh",
                "shell.sh",
                "agent.sh",
            ):
                continue
            with self.subTest(path):
                header = re.match(r"(#.*\n)+", "\n".join(lines_of(path)) + "\n").group()
                self.assertIn("Expected", header)

    def test_what_a_requeued_job_needs(self):
        for path in BATCH["slurm"]:
            with self.subTest(path):
                self.assertLessEqual(
                    {"#SBATCH --open-mode=append", "#SBATCH --requeue", "#SBATCH --signal=B:USR1@120"},
                    set(lines_of(path)),
                )
        for path in BATCH["pbs"]:
            with self.subTest(path):
                self.assertIn("#PBS -r y", lines_of(path))
        self.assertIn("#PBS -l select=4:ncpus=8:mpiprocs=8:ngpus=8:ompthreads=1", lines_of(f"{JOBS}/pbs/4node.pbs"))
        self.assertIn("#PBS -l place=scatter", lines_of(f"{JOBS}/pbs/4node.pbs"))

    def test_no_path_of_one_machine_and_no_root(self):
        for path in (
            BATCH["slurm"]
            + BATCH["pbs"]
            + glob.glob(f"{JOBS}/*.sh")
            + glob.glob(f"{JOBS}/*/[rs]*.sh")
            + glob.glob(f"{JOBS}/site/*")
        ):
            with self.subTest(path):
                text = "\n".join(line for line in lines_of(path) if not line.startswith(("#!", "#PBS -S")))
                self.assertNotRegex(text, r"(?<![\w.}$])/(home|root|work|mnt|scratch|opt|usr)/|RUN_AS_ROOT")

    def test_an_image_gets_what_is_tracked_and_nothing_else(self):
        """Docker's rules: a pattern matches a path or a folder above it, and the last match decides."""
        patterns = [line for line in lines_of(f"{ROOT}/.dockerignore") if line and not line.startswith("#")]

        def left_out(path):
            steps = ["/".join(path.split("/")[:n]) for n in range(1, path.count("/") + 2)]
            out = False
            for pattern in patterns:
                keep, pattern = pattern.startswith("!"), pattern.removeprefix("!")
                form = "(.*/)?" * pattern.startswith("**/") + re.escape(pattern.removeprefix("**/")).replace(
                    r"\*", "[^/]*"
                )
                if any(re.fullmatch(form, step) for step in steps):
                    out = not keep
            return out

        tracked = subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split()
        self.assertGreater(len(tracked), 500)
        self.assertEqual([path for path in tracked if left_out(path)], [])
        for path in (
            ".git/config", "jobs/site/mine.env", "jobs/adhoc/hostfile", "output/run/metrics.h5", "output/convoy-7.log",
            "output/a.json", "input/private/manifest.json", "build/convoy", "build-old/convoy", ".deps/onednn/x",
            "tests/jobs/__pycache__/x.pyc", "input/private.partial/x", "output/sweep/lr-1/model.h5",
        ):  # fmt: skip
            with self.subTest(path):
                self.assertTrue(left_out(path))

    def test_the_table_names_every_script(self):
        readme = "\n".join(lines_of(f"{JOBS}/README.md"))
        for path in ALL:
            with self.subTest(path):
                self.assertIn(os.path.relpath(path, ROOT), readme)


class Words(words.Words):
    """Output of a job before it starts anything."""

    def test_a_script_is_not_started_by_hand(self):
        self.refused("submit it", "bash jobs/slurm/4node.sbatch --data data")

    def test_no_executable(self):
        os.remove(f"{self.dir}/build/convoy")
        self.refused(
            "build/convoy is not there: run make first",
            "source jobs/common.sh; launch=(env); train_on auto --data data",
        )

    def test_no_data(self):
        self.refused("there is no data set in input/cifar10", "source jobs/common.sh; launch=(env); train_on auto")

    def test_site_files(self):
        self.refused("jobs/site/x.env is not there: copy", "source jobs/common.sh", CONVOY_SITE="x")
        self.site("a", "CONVOY_DATA=data")
        self.assertIn("--data data", self.trained(""))
        self.site("b", "CONVOY_COMMAND='echo in a container: convoy'\nCONVOY_DATA=data")
        self.refused("several site files; set CONVOY_SITE to one of: a b", "source jobs/common.sh")
        self.assertIn("in a container: convoy train --data data", self.trained("", CONVOY_SITE="b"))

    def test_mpirun_that_ends_with_0_must_have_left_a_model(self):
        """OpenMPI 5.0.7's mpirun ends with 0 if its daemon on another host is killed."""
        command = 'source jobs/common.sh; launch=("${mpirun[@]}"); train_on auto --data data --output out'
        self.stub("bin/mpirun", "exit 0")
        code, out, _ = self.bash(command)
        self.assertEqual((code, out.splitlines()[-1][:35]), (205, "convoy job: mpirun ended with 0, bu"))
        self.assertEqual(self.bash(command + " --dry-run")[0], 0)
        self.stub("bin/mpirun", "mkdir -p out; echo m >out/new; mv out/new out/model.h5")
        for again in range(2):
            self.assertEqual(self.bash(command)[0], 0)
        self.stub("bin/mpirun", "exit 0")
        self.assertEqual(self.bash(command)[0], 205, "the model is that of another launch")

    def test_a_run_that_was_done_before_is_done_only_without_checkpoints(self):
        """It then writes no model. With a checkpoint it does, unless a host was lost before its first record."""
        command = 'source jobs/common.sh; launch=("${mpirun[@]}"); train_on auto --data data --output "o*t"'
        self.stub("bin/mpirun", "exit 0")
        run = f"{self.dir}/o*t"
        os.makedirs(f"{run}/checkpoints")
        with open(f"{run}/metrics.jsonl", "w") as f:
            f.write('{"kind": "event", "event": "checkpoint"}\n{"kind": "event", "event": "done"}\n')
        self.assertEqual(self.bash(command)[0], 0)
        open(f"{run}/checkpoints/step-000000000200.h5", "w").close()
        self.assertEqual(self.bash(command)[0], 205)

    def test_the_launcher_of_openmpi_5_has_the_settings_too(self):
        self.stub("bin/mpirun", 'printenv PRTE_MCA_plm_ssh_agent PRTE_MCA_prte_if_include; exit 9')
        command = 'source jobs/common.sh; launch=("${mpirun[@]}"); train_on auto --data data'
        _, out, _ = self.bash(command, OMPI_MCA_plm_rsh_agent="my agent", OMPI_MCA_oob_tcp_if_include="eth0")
        self.assertEqual(out.splitlines()[-2:], ["my agent", "eth0"])

    def test_mpirun_asks_no_display(self):
        self.stub("bin/mpirun", 'echo "components: $HWLOC_COMPONENTS."; exit 9')
        command = 'source jobs/common.sh; launch=("${mpirun[@]}"); train_on auto --data data'
        self.assertEqual(self.bash("unset HWLOC_COMPONENTS; " + command)[1].splitlines()[-1], "components: -gl.")
        self.assertEqual(self.bash(command, HWLOC_COMPONENTS="x86")[1].splitlines()[-1], "components: x86.")

    def test_arguments_and_recipes_win(self):
        with open(f"{self.dir}/mine.cfg", "w") as f:
            f.write("data = data\ndevice=cpu\n")
        words = self.trained("mine.cfg --output=here --epochs 3")
        self.assertEqual(words, "train --config mine.cfg --output=here --epochs 3 --resume auto")

    def test_arguments_with_spaces_arrive_at_pbs(self):
        self.stub("bin/qsub", 'printf "%s\\n" "$@" "ARGS: $CONVOY_ARGS"')
        self.site("a", 'QSUB_OPTIONS="-q gpu"')
        code, out, err = self.bash(
            "jobs/submit.sh -l walltime=1:00:00 jobs/pbs/1gpu.pbs --data 'a b' --lr-milestones 1,2", CONVOY_DATA="d"
        )
        self.assertEqual(code, 0, err)
        options = ["-S", f"{self.dir}/jobs/pbs/shell.sh", "-q", "gpu", "-l", "walltime=1:00:00"]
        names = ["-v", "CONVOY_ARGS,CONVOY_SUBMIT,CONVOY_DATA"]
        self.assertEqual(out.splitlines()[:-1], [*options, *names, "jobs/pbs/1gpu.pbs"])
        packed = out.splitlines()[-1].removeprefix("ARGS: ")
        self.assertRegex(packed, "^base64:[A-Za-z0-9+/=]+$")  # PBS splits values at commas and backslashes
        unpacked = self.bash(f'source jobs/common.sh; eval "printf %s\\|  $(unpacked {packed})"')[1]
        self.assertEqual(unpacked, "--data|a b|--lr-milestones|1,2|")

    def test_folders_of_any_name_arrive_at_pbs(self):
        self.stub("bin/qsub", 'printf "%s|" "$CONVOY_DATA" "$CONVOY_OUTPUT"')
        given = {"CONVOY_DATA": "/my data/a,b\\c", "CONVOY_OUTPUT": "output/mine "}
        said = self.bash("jobs/submit.sh jobs/pbs/1gpu.pbs", **given)[1].split("|")[:2]
        for value in said:
            self.assertRegex(value, "^base64:[A-Za-z0-9+/=]+$")
        out = self.bash(
            'source jobs/common.sh; printf "%s|" "$CONVOY_DATA" "$CONVOY_OUTPUT"', **dict(zip(given, said))
        )[1]
        self.assertEqual(out.split("|")[:2], list(given.values()))
        self.site("a", "CONVOY_DATA=/ours")
        self.assertEqual(
            self.bash('source jobs/common.sh; echo "$CONVOY_DATA"', CONVOY_DATA=said[0])[1],
            "/ours\n",
            "the site file comes after it",
        )

    def test_no_value_for_pbs_ends_with_a_blank(self):
        """qsub removes the blank, and a copy's options would run together."""
        self.stub("bin/qsub", 'printf "%s|" "$CONVOY_ARGS" "$CONVOY_SUBMIT"')
        said = self.bash("jobs/submit.sh -l walltime=1:00:00 -W depend=afterok:7 jobs/pbs/1gpu.pbs --data data")[1]
        self.assertEqual(said, "--data data|-l walltime=1:00:00|")
        self.assertEqual(self.bash("jobs/submit.sh jobs/pbs/1gpu.pbs")[1], "||")

    def test_short_walltimes_leave_a_time_limit(self):
        for walltime, limit in (
            ("12:00:00", "43080s"),
            ("00:08:00", "360s"),
            ("00:07:59", "360s"),
            ("00:02:00", "90s"),
            ("00:01:00", "45s"),
            ("00:00:08", "6s"),
        ):
            with self.subTest(walltime):
                self.stub("bin/qstat", f'echo "    Resource_List.walltime = {walltime}"')
                self.assertEqual(self.bash("source jobs/common.sh; PBS_JOBID=1 pbs_time_limit")[1], limit + "\n")
        self.stub("bin/qstat", "exit 1")
        self.assertEqual(self.bash("source jobs/common.sh; PBS_JOBID=1 pbs_time_limit")[:2], (0, ""))

    def test_printed_commands_can_be_pasted(self):
        odd = ["a=b,c", "a b", "it's", "$HOME", "*", "", "~x", "-n", "back\\slash", 'q"', "new\nline", "é"]
        code, out, err = self.bash(f"source jobs/common.sh; quoted {' '.join(map(shlex.quote, odd))}")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(shlex.split(out), odd)
        self.assertEqual(self.bash(f"printf '%s|' {out}")[1], "|".join(odd) + "|", "by a shell itself")
        self.assertEqual(
            self.bash("source jobs/common.sh; quoted --data=x/y_1.h5 lr=0.1,0.2")[1], "--data=x/y_1.h5 lr=0.1,0.2\n"
        )
        os.rename(f"{self.dir}/data", f"{self.dir}/it's data")
        self.stub("build/convoy", "exit 85")
        launch = """source jobs/common.sh; launch=(env); train_on cpu --data "it's data" --output 'my run'"""
        said = self.bash(launch)[1].splitlines()
        self.assertEqual(
            shlex.split(said[0])[7:],
            [
                "env",
                "build/convoy",
                "train",
                "--data",
                "it's data",
                "--output",
                "my run",
                "--resume",
                "auto",
                "--device",
                "cpu",
            ],
        )
        self.assertEqual(said[1], "convoy job: checkpointed; the same command with --output 'my run' resumes this run")

    def test_a_copy_of_a_job_is_submitted_by_words_that_can_be_pasted(self):
        name = "convoy-1gpu;touch pwned"
        script = f"jobs/pbs/{name.removeprefix('convoy-')}.pbs"
        again = f"""source jobs/common.sh; PBS_JOBID=7 PBS_JOBNAME={shlex.quote(name)}
            CONVOY_ARGS="--data 'my data;touch pwned'" CONVOY_SUBMIT= asked='' code=85
            output='my run'; requeue_pbs checkpointed"""
        self.stub("bin/qrerun", "exit 1")
        said = self.bash(again)[1]
        words = shlex.split(said.split("To resume: ")[1])
        self.assertEqual(words, ["CONVOY_OUTPUT=my run", "jobs/submit.sh", script, "--data", "my data;touch pwned"])
        self.stub(script, "")
        self.stub("jobs/submit.sh", "printf '%s|' \"$@\"")
        self.assertIn(
            f"continues as job -W|depend=afterany:7|{script}|--data|my data;touch pwned|", self.bash(again)[1]
        )
        self.assertFalse(os.path.exists(f"{self.dir}/pwned"))

    def test_a_sweeps_element_goes_on_by_words_that_can_be_pasted(self):
        self.stub("bin/qrerun", "exit 1")
        self.stub("build/convoy", "exit 85")
        os.rename(f"{self.dir}/data", f"{self.dir}/my data;touch pwned")
        out = self.bash("""source jobs/common.sh
            scheduler=pbs PBS_JOBID=7[0] PBS_JOBNAME=convoy-sweep PBS_ARRAY_INDEX=0
            find_launcher() { launch=(env) convoy=(build/convoy); }
            sweep_on cpu lr=0.1 --data 'my data;touch pwned'""")[1]
        self.assertEqual(
            shlex.split(out.split("To resume: ")[1])[1:],
            ["jobs/submit.sh", "jobs/pbs/1gpu.pbs", "--data", "my data;touch pwned", "--keep", "0", "--lr", "0.1"],
        )
        kept = self.bash("""source jobs/common.sh
            scheduler=pbs PBS_JOBID=7[0] PBS_JOBNAME=convoy-sweep PBS_ARRAY_INDEX=0
            find_launcher() { launch=(env) convoy=(build/convoy); }
            sweep_on cpu lr=0.1 --data 'my data;touch pwned' --keep=3""")[1]
        self.assertNotIn("--keep 0", kept)

    def test_retries_are_a_number(self):
        self.refused(
            "CONVOY_RETRIES=often is not a number",
            "source jobs/common.sh; launch=(env); train_on auto --data data",
            CONVOY_RETRIES="often",
        )

    def test_no_scheduler_here(self):
        self.refused(
            "sbatch is not here",
            'PATH=$(dirname "$(command -v basename)"):/bin; hash -r; enable -n type; command() { return 1; }; '
            "set -- jobs/slurm/1gpu.sbatch; source jobs/submit.sh",
        )

    def test_a_signal_reaches_the_launcher_and_its_exit_code_comes_back(self):
        self.stub("build/convoy", "trap 'sleep 0.5; exit 85' USR1; for i in $(seq 100); do sleep 0.1; done")
        command = (
            "bash -c 'source jobs/common.sh; launch=(env); train_on auto --data data --output run' & "
            "job=$!; sleep 1; kill -%s $job; wait $job"
        )
        for signal in ("USR1", "TERM"):
            code, out, err = self.bash(command % signal)
            self.assertEqual(code, 85, err)
            self.assertIn("checkpointed; the same command with --output run resumes this run", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
