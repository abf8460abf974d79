#!/bin/bash -l
# The shell that PBS starts for a job; jobs/submit.sh names it with qsub -S. It reads a command from
# stdin, the script's path, and becomes it. PBS's usual shell stays the script's parent, does not
# trap the signals of qsig, and ends the whole job when it dies.
read -r command
[[ $command != '#'* ]] || exec /bin/bash -s # for a PBS that was built to pass the script itself
# Brackets arrive escaped; in a private sandbox the command is "cd FOLDER;PATH".
eval "${command%"${command##*;}"} exec ${command##*;}"
