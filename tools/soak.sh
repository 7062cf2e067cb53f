#!/bin/sh
# The random tests, turn after turn, each with another seed, until HOURS are over or one turn fails: tools/soak.sh TESTS...
set -eu
until=$(($(date +%s) + $(awk "BEGIN { print int(${HOURS:-8} * 3600) }")))
seed=${SEED:-1}
while [ "$(date +%s)" -lt "$until" ]; do
    echo "soak: CRONGUARD_TEST_SEED=$seed CRONGUARD_TEST_ROUNDS=${ROUNDS:-20}, $(((until - $(date +%s)) / 60)) minutes left" >&2
    CRONGUARD_TEST_SEED=$seed CRONGUARD_TEST_ROUNDS=${ROUNDS:-20} ./check -q "$@"
    seed=$((seed + 1))
done
