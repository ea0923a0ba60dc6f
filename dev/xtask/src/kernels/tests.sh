# Runs the tests of the plan.

cd /package

bounded() {
    timeout -s KILL "$LIMIT" "$@" </dev/null
}

mark doctor
bounded "$DOCTOR" doctor --json
while read -r name command; do
    mark list "$name"
    bounded $command --list --format terse
    mark run "$name"
    # One after the other, as each counts on a part of what little time there is.
    bounded $command --format pretty --color never --test-threads 1
    mark end "$?"
done </plan
