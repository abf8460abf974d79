#!/usr/bin/env bash
# Replaces mpirun's ssh on PBS: agent.sh /path/of/pbs_tmrsh HOST COMMAND... OpenMPI passes one
# string of shell code, and pbs_tmrsh executes its words without a shell.
tmrsh=$1 host=$2
shift 2
exec "$tmrsh" "$host" /bin/sh -c "$*"
