#!/bin/bash
# Runs of a training with known answers, on one node.
# shellcheck source=tests/mpi/lib.sh
. "$(dirname "$0")/lib.sh"
toy=$DSGD_BUILDDIR/tests/mpi/toy

good() { # CONDITION'S-STATUS NAME
    tap_result "$1" "$2" || sed 's/^/#   /' "$dir/out"
}

run() { # [NAME=VALUE…] -- toy arguments, on $ranks ranks
    local vars=()
    while [ "$1" != -- ]; do vars+=("$1"); shift; done
    shift
    env "${vars[@]}" timeout -k 5 100 mpirun --oversubscribe -n "$ranks" \
        "$toy" "$@" >"$dir/out" 2>&1
}

states() { grep -o 'state .*' "$dir/out" | sort -u | wc -l; }
shown() { grep -c '^rank .* state' "$dir/out"; }

ranks=4
run -- -t .001
good $? "full: exit code 0"
[ "$(states)" = 1 ] && [ "$(shown)" = 4 ]
good $? "full: four identical replicas"
grep -q 'steps 64 samples 2000 deviation 0.000' "$dir/out"
good $? "full: every sample once an epoch, in the fewest steps"

for mode in static:3 static:50% order; do
    for poll in "" -p; do
        run DSGD_CUTOFF=$mode -- -t .003 -s 2:.03 $poll
        good $? "$mode $poll with a straggler: exit code 0"
        [ "$(states)" = 1 ] && [ "$(shown)" = 4 ]
        good $? "$mode $poll: identical replicas"
        grep -q 'samples 2000 deviation 0.000' "$dir/out"
        good $? "$mode $poll: every sample once an epoch"
    done
done

run DSGD_CUTOFF=static:3 DSGD_LATE=drop -- -t .003 -s 2:.05 -p
good $? "drop: exit code 0"
grep -q 'samples 2000 ' "$dir/out"
[ $? -ne 0 ]
good $? "drop: fewer samples than there are"

run DSGD_CUTOFF=static:3 DSGD_RING_BYTES=0 -- -t .001 -s 1:.3 -e 8
good $? "a worker that is later than the ring is long: exit code 0"
[ "$(states)" = 1 ] && [ "$(shown)" = 4 ]
good $? "its state is resynchronised: identical replicas"
grep -q 'samples 8000 deviation 0.000' "$dir/out"
good $? "nothing lost, nothing doubled"

run DSGD_CUTOFF=static:3 DSGD_HARD_TIMEOUT=1 -- -t .003 -x 2:5 -e 4
good $? "a stopped worker: exit code 0"
[ "$(states)" = 1 ] && [ "$(shown)" = 3 ]
good $? "the others are identical"
grep -q 'samples 4000 deviation 0.000' "$dir/out"
good $? "its samples went to others"

# Shared work: in as many steps, whoever does it.
run DSGD_WORK=shared -- -t .003 -s 2:.03
good $? "shared work with a straggler: exit code 0"
[ "$(states)" = 1 ] && [ "$(shown)" = 4 ]
good $? "shared work: identical replicas"
grep -q 'steps 64 samples 2000 deviation 0.000' "$dir/out"
good $? "shared work: every sample once an epoch, in the fewest steps"
run DSGD_CUTOFF=static:3 DSGD_PARTIAL=contribute -- -t .003 -s 2:.03 -c
good $? "own work in parts, with a straggler: exit code 0"
[ "$(states)" = 1 ] && [ "$(shown)" = 4 ]
good $? "own work in parts: identical replicas"
grep -q 'samples 2000 deviation 0.000' "$dir/out"
good $? "own work in parts: every sample once an epoch"
run DSGD_WORK=shared DSGD_PARTS=3 -- -t .003 -r 2 -b 10
good $? "shared work, parts of other sizes: exit code 0"
grep -q 'steps 50 samples 2000 deviation 0.000' "$dir/out"
good $? "shared work, parts of other sizes: in the fewest steps"
run DSGD_WORK=shared DSGD_HARD_TIMEOUT=1 -- -t .003 -x 2:5 -e 4
good $? "shared work, a stopped worker: exit code 0"
[ "$(states)" = 1 ] && [ "$(shown)" = 3 ]
good $? "shared work, a stopped worker: the others are identical"
grep -q 'samples 4000 deviation 0.000' "$dir/out"
good $? "shared work, a stopped worker: others do its samples"

# Gradients of many chunks, whose sums are helped with by ranks that are stopped
# for a moment again and again.
run -- -t .001 -g 400000 -n 400 -e 4 &
job=$!
for _ in $(seq 40); do
    victim=$(pgrep -f "^$toy -t .001 -g 400000" | shuf -n 1)
    [ -n "$victim" ] && kill -STOP "$victim" 2>/dev/null
    sleep .03
    [ -n "$victim" ] && kill -CONT "$victim" 2>/dev/null
done
wait "$job"
good $? "ranks stopped for moments: exit code 0"
[ "$(states)" = 1 ] && [ "$(shown)" = 4 ]
good $? "identical replicas"
grep -q 'samples 1600 deviation 0.000' "$dir/out"
good $? "with the right sums"

run DSGD_HARD_TIMEOUT=1 -- -t .003 -x 3:5
good $? "full with a stopped worker ends after the hard timeout"

ranks=1
run -- -t .001
good $? "one rank"
ranks=3
for case in "static:4|static:4 waits for more workers than the 3|2" \
    "static:0|at least 1|2" "static:200%|at most 100|2" \
    "dynmic|is none of full|2" \
    "dynamic|none is installed|13"; do
    IFS='|' read -r mode text code <<<"$case"
    run DSGD_CUTOFF="$mode" -- -t .001
    rc=$?
    [ $rc = "$code" ] && [ "$(grep -c "^toy: .*$text" "$dir/out")" -ge 1 ]
    good $? "$mode: a clear error ($rc)"
done

ls /dev/shm | grep -q '^dsgd-'
[ $? -ne 0 ]
good $? "nothing is left in /dev/shm"
tap_done
