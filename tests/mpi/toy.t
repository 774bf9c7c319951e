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

sql() { sqlite3 "$dir/r.dsgd" "$1"; }

# same_again NAME: some gave a part, and the replay is the same, to the last bit.
same_again() {
    local state
    state=$(grep -o 'state .*' "$dir/out" | sort -u)
    [ "$(sql 'select count(*) from contribution where from_step = step')" -gt 9 ]
    good $? "$1: parts contribute"
    run DSGD_CUTOFF="replay:$dir/r.dsgd" -- -t .001 -c -R
    good $? "$1, its replay: exit code 0"
    [ "$(grep -o 'state .*' "$dir/out" | sort -u)" = "$state" ]
    good $? "$1, its replay: the same state"
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

# Own work in parts: what a straggler has deposited counts.
for options in "DSGD_CUTOFF=static:3" "DSGD_CUTOFF=order" \
    "DSGD_CUTOFF=static:3 DSGD_PARTIAL=discard" \
    "DSGD_CUTOFF=static:3 DSGD_LATE=carry"; do
    # shellcheck disable=SC2086 # a list
    run $options DSGD_RECORD="$dir/r.dsgd" -- -t .003 -s 2:.008 -c -R
    good $? "own work in parts, $options: exit code 0"
    [ "$(states)" = 1 ] && [ "$(shown)" = 4 ]
    good $? "$options: identical replicas"
    "$DSGD_BUILDDIR/tests/record_audit" "$dir/r.dsgd" |
        grep -q 'epochs 2 .* doubled 0 missing 0 wrong 0 differ 0'
    good $? "$options: every sample once an epoch"
    case $options in
    *static:3) same_again "$options" ;;
    esac
    rm "$dir/r.dsgd"
done

# A rank that is stopped before its fourth part of step 5 gives the three.
run DSGD_CUTOFF=full DSGD_HARD_TIMEOUT=1 DSGD_RECORD="$dir/r.dsgd" -- \
    -t .003 -x 2:5 -e 4 -c -b 16
good $? "own parts, a stopped worker: exit code 0"
[ "$(states)" = 1 ] && [ "$(shown)" = 3 ]
good $? "own parts, a stopped worker: the others are identical"
grep -q 'samples 4000 deviation 0.000' "$dir/out"
good $? "own parts, a stopped worker: others do the rest, once"
[ "$(sql 'select c.samples, s.samples from contribution c join step s
    using (step) where c.step = 5 and c.from_step = 5 and c.worker = 2')" = \
    '6|54' ]
good $? "own parts, a stopped worker: its three parts are in step 5"
rm "$dir/r.dsgd"

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

# Ranks whose environments differ: rank 0's counts, and nobody waits for ever.
differ() { # DSGD_MODEX of rank 0, of rank 1
    timeout -k 5 30 mpirun --oversubscribe \
        -n 1 -x DSGD_MODEX="$1" "$toy" -t .001 : \
        -n 1 -x DSGD_MODEX="$2" "$toy" -t .001 >"$dir/out" 2>&1
}
for pair in "pmix mpi" "mpi pmix" "mpi foo"; do
    # shellcheck disable=SC2086
    differ $pair
    good $? "DSGD_MODEX differs: $pair"
done
differ foo mpi
[ $? = 2 ] && grep -q '^toy: .*DSGD_MODEX: "foo" is none of' "$dir/out"
good $? "DSGD_MODEX is wrong on rank 0"

ls /dev/shm | grep -q '^dsgd-'
[ $? -ne 0 ]
good $? "nothing is left in /dev/shm"
tap_done
