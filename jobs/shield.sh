#!/usr/bin/env bash
# Starts a command that the signals of a job do not reach: shield.sh ssh HOST ... PBS signals every
# process of a job, and an ssh that ended of it would take its host's ranks along before they have
# checkpointed.
trap '' USR1 TERM
exec "$@"
