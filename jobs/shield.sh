#!/usr/bin/env bash
# Starts a command that the signals of a job do not reach: shield.sh ssh HOST ... PBS signals every
# process of a job. If ssh died of that, its host's ranks would die before they have checkpointed.
trap '' USR1 TERM
exec "$@"
