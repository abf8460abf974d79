"""Runs every command of the READMEs and of the pages beside them as it is written:
`readme_commands.py BUILD`. Commands are the lines of indented and fenced blocks. They run in a
folder of links to the repository, so that nobody's runs and data sets are touched, with the shipped
sample as input/cifar10. Prints what failed, and ends with 1; `--list` only says what would run and
what is left out. `readme_commands.py BUILD HEADING FOLDER` runs those of one section of README.md in
FOLDER, whole trainings too."""

import os
import re
import shlex
import subprocess
import sys
import tempfile

LIMIT = 1200  # seconds per command; none takes two minutes on two idle cores
PYTHON = r"^(from \w[\w.]* import|import|net =|x =) |^print\("
# (pattern, reason why it is not run). A pattern without a match is an error.
LEFT_OUT = [
    (r"…", "not a whole command"),
    (r"^make$", "builds what this test runs; make test-fresh runs it"),
    (r"^make run\b", "minutes, and it installs; make test-fresh runs it"),
    (r"^make (check|test(-all)?)( (T|SINCE)=.*)?$", "runs this test"),
    (r"^make (format|check-format)$", "fetches tools; .ci/run checks"),
    (r"^make (test-gpu|emulated|bundle)\b", "needs a GPU, or minutes of building"),
    (r"^make (bench-peers|record-cpu)\b", "fetches PyTorch, or takes hours"),
    (r"^cp jobs/site/|convoy-accept-JOBID", "writes into jobs/ of the checkout, or needs a job's log"),
    (r"^(sbatch|srun|scontrol|jobs/submit\.sh)\b", "needs a scheduler; make test-jobs runs the scripts"),
    (r"\b(docker|apptainer)\b", "needs a container engine"),
    (r"--from cifar-10-binary\.tar\.gz", "needs the 170 MB that make data fetches"),
    (r"recipes/(resnet50|airbench94)\.cfg|output/airbench94", "hours"),
    (r"comm-test --bytes 1K\.\.1G", "gigabytes; CommTest measures fewer"),
    (r"comm-test --device cuda", "needs GPUs; CommTestExpected does it on CPUs"),
    (r"output/scaling-", "needs a scaling matrix; Scaling makes one up"),
    (r"bench --model resnet50 --batch-per-rank (32$|128)", "minutes to hours; the one with a timeline runs"),
    (r"info --plans", "minutes; CudaPlansOf lists plans"),
    (r"to_tensorboard\.py", "needs a package that is not installed; Tensorboard runs it"),
    (r"^pip install reframe-hpc|\breframe -C\b", "needs a package from PyPI and Slurm; Reframe runs the same locally"),
    (r"^jobs/train\.sh\b", "needs GPUs; Jobs runs the script"),
    (PYTHON, "Python with torchvision or onnxruntime; make test-interchange does this"),
    (r"import --from resnet", "needs weights of torchvision; make test-interchange imports them"),
    (r"\bphotos\b", "needs a folder of pictures; OwnImages makes one and runs them"),
]
# Other tests check what a training learns; here its command must work.
SHORTER = (r"\bconvoy train\b(?!.*--(dry-run|max-steps))", "convoy train --max-steps 5")
# Commands that do not end by themselves run for two seconds.
ENDLESS = r"^tail -f"


def readmes():
    listed = subprocess.run(
        ["git", "ls-files", "README.md", "*/README.md", "CONTRIBUTING.md", "jobs/*.md", "output/*.md", "input/*.md"],
        capture_output=True,
        text=True,
        check=True,
    )
    # The first one makes the data set and the run that other READMEs use.
    return sorted(
        listed.stdout.split(), key=lambda path: (path.count("/"), path != "README.md", path != "input/README.md", path)
    )


def commands_of(path, section=None):
    """Returns (line number, command) of the lines in indented and fenced blocks, without comments; of
    all sections, or of one."""
    fenced, in_list, after_blank, heading = False, False, True, None
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            text = line.rstrip("\n")
            if not fenced and text.startswith("## "):
                heading = text[3:]
            if section not in (None, heading):
                continue
            if text.startswith("```"):
                fenced = not fenced
            elif fenced or (text.startswith("    ") and not in_list and after_blank):
                command = re.sub(r"\s{2,}# .*", "", text).strip()
                if command:
                    yield number, command
            else:
                in_list = bool(re.match(r"\s*([-*]|\d+\.)\s", text)) or (in_list and text.startswith(" "))
                after_blank = not text.strip()


def reason_against(command, build):
    if "--device cuda" in command and not os.path.exists(f"{build}/libconvoy_cuda.so"):
        return "this build has no CUDA backend"
    return next((why for pattern, why in LEFT_OUT if re.search(pattern, command)), None)


def link_repository(folder, build):
    """Makes input/ and output/ folders of links, and links everything else."""
    root = os.getcwd()
    for name in os.listdir(root):
        if name not in ("input", "output", "build", ".git"):
            os.symlink(f"{root}/{name}", f"{folder}/{name}")
    os.symlink(os.path.abspath(build), f"{folder}/build")
    for name in ("input", "output"):
        os.mkdir(f"{folder}/{name}")
        shipped = subprocess.run(["git", "ls-files", name], capture_output=True, text=True, check=True).stdout.split()
        for path in {"/".join(path.split("/")[:2]) for path in shipped}:
            os.symlink(f"{root}/{path}", f"{folder}/{path}")
    os.symlink("cifar10-sample", f"{folder}/input/cifar10")


def run(command, folder, environment, whole=False):
    """Returns the problem with a command, or None. Outputs that another README left are removed
    first, unless the command continues them. Trainings are shortened unless `whole`."""
    words = shlex.split(command)
    for option, target in zip(words, words[1:]):
        if option in ("--to", "--output") and ".." not in target and "--resume auto" not in command:
            subprocess.run(["rm", "-rf", f"{folder}/{target}"], check=True)
    endless, shorter = re.search(ENDLESS, command), command if whole else re.sub(*SHORTER, command)
    ended = subprocess.run(
        ["timeout", "-k", "5", "2" if endless else str(LIMIT), "bash", "-c", f"set -o pipefail; {shorter}"],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if ended.returncode == (124 if endless else 0):
        return None
    return f"exit code {ended.returncode}\n{ended.stdout[-2000:]}"


def environment_of_commands():
    # The caller may be an MPI process itself. The folder of mpirun's files is kept.
    mpi = re.compile(r"(PMIX|OMPI|ORTE|OPAL|PRTE)_(?!.*ALLOW_RUN_AS_ROOT|.*_tmpdir_base)")
    environment = {name: value for name, value in os.environ.items() if not mpi.match(name)}
    # `python3` must be the one that make deps fills.
    environment["PATH"] = os.path.dirname(os.environ.get("PYTHON", "/usr/bin/python3")) + ":" + os.environ["PATH"]
    # OpenMPI counts cores as slots; versions 4 and 5 have different variables for that. The READMEs
    # say what to do in that case.
    environment["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
    environment["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    return environment


def run_section(build, heading, folder):
    link_repository(folder, build)
    commands = [c for c in commands_of("README.md", heading) if not re.search(PYTHON, c[1])]
    for number, command in commands:
        if problem := run(command, folder, environment_of_commands(), whole=True):
            print(f"README.md:{number}: {command}: {problem}")
            return 1
    print(f"{len(commands)} commands")
    return 0


def main(build, only_list):
    found = [(f"{path}:{number}", command) for path in readmes() for number, command in commands_of(path)]
    wrong = [
        f"no command matches the exception {pattern}"
        for pattern, _ in LEFT_OUT
        if not any(re.search(pattern, c) for _, c in found)
    ]
    environment = environment_of_commands()
    with tempfile.TemporaryDirectory() as folder:
        link_repository(folder, build)
        for place, command in found:
            why = reason_against(command, build)
            if only_list:
                print(f"{place}: {command}\n    {'left out: ' + why if why else 'runs'}")
            elif not why:
                print(f"{place}: {command}", file=sys.stderr, flush=True)
                if problem := run(command, folder, environment):
                    wrong.append(f"{place}: {command}: {problem}")
    print("".join(line + "\n" for line in wrong), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--")] or ["build"]
    sys.exit(run_section(*words) if len(words) == 3 else main(words[0], "--list" in sys.argv))
