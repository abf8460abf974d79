# shellcheck shell=bash
# Sourced: adds up the passed, failed and skipped tests of several commands.
passed=0 failed=0 skipped=0

# Adds the last line "N passed, N failed, N skipped" of LOG, or 1 for a command without one. A
# command with a CODE other than 0 has failed, whatever it counted. Sets `counted`.
add_up() { # LOG CODE
  counted=$(grep -aE '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$1" | tail -n 1)
  if [[ $2 -eq 0 ]]; then
    : "${counted:=1 passed, 0 failed}"
  elif [[ ! $counted =~ ,\ [1-9][0-9]*\ failed ]]; then
    counted='0 passed, 1 failed'
  fi
  [[ $counted =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+))? ]]
  passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2])) skipped=$((skipped + ${BASH_REMATCH[4]:-0}))
}
closing_line() { echo "$passed passed, $failed failed, $skipped skipped"; }
