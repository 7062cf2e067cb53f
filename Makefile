# make check    everything that must pass, as CI does it
# make soak     all that is random, again and again, for hours: HOURS=8 or 0.5; SEED=n for the same dice (of the first turn)

HOURS ?= 8
SEED ?= $(shell date +%s)
ROUNDS ?= 20
SOAKED = tests/faults tests/guarantees tests/process/test_random_deaths.py tests/process/test_partition.py \
         tests/process/test_zoo.py tests/unit/test_schedule.py tests/acceptance/test_three_hosts_recovery.py

.PHONY: check soak
check:
	./check

soak:
	HOURS=$(HOURS) SEED=$(SEED) ROUNDS=$(ROUNDS) sh tools/soak.sh $(SOAKED)
