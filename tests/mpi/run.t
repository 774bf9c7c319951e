#!/bin/bash
# dsgd-run on one node: workers that die, what is told, what is left.
# shellcheck disable=SC2016 source=tests/mpi/lib.sh
. "$(dirname "$0")/lib.sh"
run=$DSGD_BUILDDIR/dsgd-run
sleeper=$DSGD_BUILDDIR/tests/run/sleeper
unset OMP_NUM_THREADS

# go ARG...: dsgd-run; standard output in $out, error in $err, code in $rc.
go() {
    timeout -k 5 60 "$run" "$@" >"$dir/out" 2>"$dir/err"
    rc=$?
    out=$(cat "$dir/out")
    err=$(cat "$dir/err")
}
# trained N: N workers say that the run is theirs, with one state, and that
# every sample was used once an epoch.
trained() {
    is "$name: $1 workers come to the end" \
        "$(grep -c '^rank .* deviation 0.00' "$dir/out")" "$1"
    is "$name: with one state" \
        "$(grep -o 'state [0-9a-f]*' "$dir/out" | sort -u | wc -l)" 1
}

name="four workers"
go -w 4 "$sleeper" -t .002
is "$name: exit code" "$rc" 0
trained 4
is "$name: nothing else to say" "$err" ""
like "$name: in the fewest steps" "$out" 'samples 2000, .* steps 64'

name="with a timing model"
DSGD_CUTOFF=dynamic DSGD_MODEL=$DSGD_SRCDIR/model/default.safetensors \
    go -w 4 "$sleeper" -t .002
is "$name: exit code" "$rc" 0
trained 4
is "$name: nothing else to say" "$err" ""

export DSGD_RING_BYTES=0 # what a new process lacks is not in the ring
while read -r how cause; do
    name="worker 2 $cause"
    go -w 4 "$sleeper" -t .004 -e 10 -x "2:30:$how"
    is "$name: exit code" "$rc" 0
    trained 4
    like "$name: is told" "$err" \
        "worker 2 on [^ ]* $cause; starting it again in 0.0 s \(1 of 3\)"
    like "$name: is named at the end" "$err" ': worker 2 started again 1 time$'
done <<'CASES'
9 killed by signal 9 \(Killed\)
11 killed by signal 11 \(Segmentation fault\)
-3 ended with exit code 3
CASES

name="shared work, worker 2 is killed"
export DSGD_WORK=shared
go -w 4 "$sleeper" -t .001 -e 10 -x 2:30:9
is "$name: exit code" "$rc" 0
trained 4
like "$name: is named at the end" "$err" ': worker 2 started again 1 time$'
like "$name: no sample lost or doubled" "$out" 'samples 10000, '
unset DSGD_WORK

name="worker 1 dies every time"
go -w 4 --restarts 1 "$sleeper" -t .004 -e 10 -x 1:30:+9
is "$name: exit code" "$rc" 0
trained 3
like "$name: is given up" "$err" 'worker 1 .* \(Killed\), not started again'
like "$name: is named at the end" "$err" \
    ': worker 1 started again 1 time, then lost \(killed by signal 9'


name="all die, every time" # nobody has the state, or no restart is left
go -w 3 "$sleeper" -t .002 -x -1:30:+9
is "$name: exit code" "$rc" 137
like "$name: is told" "$err" \
    'the run broke off: (all workers have died|no worker is left)'
unset DSGD_RING_BYTES
name="all die in the first steps"
go -w 3 "$sleeper" -t .002 -x -1:9:9
is "$name: exit code" "$rc" 0
trained 3
name="a worker that finds all means in the ring"
go -w 4 "$sleeper" -t .004 -e 3 -x 3:9:9
is "$name: exit code" "$rc" 0
trained 4

name="no worker is left"
go -w 3 --restarts 0 "$sleeper" -t .002 -x -1:30:-7
is "$name: exit code" "$rc" 7
like "$name: is told" "$err" 'the run broke off: no worker is left'

name="static:3"
DSGD_CUTOFF=static:3 go -w 4 "$sleeper" -t .004 -e 8 -x 0:30:9
is "$name: exit code" "$rc" 0
trained 4
name="order"
DSGD_CUTOFF=order go -w 4 "$sleeper" -t .004 -e 8 -x 0:30:9
is "$name: exit code" "$rc" 0
trained 4

# A worker that takes another's place leaves the gradients alone that the other
# gave, those that are carried too.
name="carried gradients"
DSGD_CUTOFF=static:3 DSGD_LATE=carry DSGD_RING_BYTES=0 \
    DSGD_RECORD=$dir/carry.dsgd go -w 5 "$sleeper" -t .004 -e 8 -x 1:20:9
is "$name: exit code" "$rc" 0
trained 5
like "$name: every sample once an epoch" \
    "$("$DSGD_BUILDDIR/tests/record_audit" "$dir/carry.dsgd")" \
    'epochs 8 carried [1-9].* doubled 0 missing 0 wrong 0 differ 0 '

name="a replay"
DSGD_CUTOFF=static:3 DSGD_RECORD=$dir/played.dsgd go -w 4 "$sleeper" -t .004 -e 4
before=$(grep -o 'state [0-9a-f]*' <<<"$out" | sort -u)
DSGD_CUTOFF=replay:$dir/played.dsgd go -w 4 "$sleeper" -t .002 -e 4 -x 2:20:9
is "$name in which a worker dies: exit code" "$rc" 0
trained 4
is "$name: the same bits" "$(grep -o 'state [0-9a-f]*' <<<"$out" | sort -u)" \
    "$before"
is "$name: says nothing of a difference" "$(grep -c differ <<<"$err")" 0

name="a program that opens with dsgd_mpi_open"
go -w 3 "$DSGD_BUILDDIR/tests/mpi/toy" -t .001
is "$name: exit code" "$rc" 0
like "$name: it ran" "$out" 'samples 2000 deviation 0.000'
name="dsgd-train"
go -w 2 "$DSGD_BUILDDIR/dsgd-train" --model softmax --max-steps 20 --summary -
is "$name: exit code" "$rc" 0
like "$name: two workers" "$out" '"workers": 2'
name="dsgd-train without data"
go -w 2 "$DSGD_BUILDDIR/dsgd-train" --data /nonexistent
is "$name: exit code" "$rc" 5
is "$name: told once" "$(grep -c '^dsgd-train: .*/nonexistent' <<<"$err")" 1

# --- errors before the run is open ---

refuses() { # NAME CODE REGEX ARG...
    local code=$2 text=$3
    name=$1
    shift 3
    go "$@"
    is "$name: exit code" "$rc" "$code"
    like "$name: a clear error" "$err" "$text"
}
refuses "no program" 2 'no program to run'
refuses "no workers" 2 '"0" is not a number from 1' -w 0 true
refuses "a bad list" 2 '"2,x" is not a number' -w 2,x true
refuses "a list too long" 2 'has 2 numbers and the run has 1 nodes' -w 2,2 true
refuses "a bad number of restarts" 2 '"-1" is not' --restarts -1 true
refuses "an unknown option" 2 '--frob: there is no such option' --frob true
refuses "no such program" 127 'nonexistent: no such program' -w 1 /nonexistent
refuses "a program that fails" 7 'worker 0 on .* exit code 7' \
    -w 2 sh -c 'exit $((DSGD_RUN_RANK == 0 ? 7 : 0))'
DSGD_CUTOFF=static:9 refuses "K larger than the workers" 2 \
    '^dsgd-run: .*static:9 waits for more workers than the 2 ' -w 2 "$sleeper"
refuses "a wrapper that closes the memory" 10 \
    'sleeper: open: DSGD_RUN_FD: file descriptor [0-9]+ is not open here' \
    -w 1 bash -c 'eval "exec $DSGD_RUN_FD<&-"; exec "$0"' "$sleeper"

# --- what workers get ---

{
    name="a program without a run"
    go -w 3 sh -c 'echo $DSGD_RUN_RANK of $DSGD_RUN_SIZE; cat'
    is "$name: exit code" "$rc" 0
    is "$name: knows its rank; standard input is empty" \
        "$(sort <<<"$out" | tr '\n' ,)" "0 of 3,1 of 3,2 of 3,"
    go -w 2 sh -c 'env | grep -c -E "^(PMIX|PMI|OMPI)_"; :'
    is "workers do not look like MPI ranks" "$(sort -u <<<"$out")" 0
    go -w 1000 sh -c 'echo $OMP_NUM_THREADS'
    is "1000 workers have one thread each" "$(sort -u <<<"$out")" 1
    OMP_NUM_THREADS=7 go -w 2 sh -c 'echo $OMP_NUM_THREADS'
    is "unless the user said otherwise" "$(sort -u <<<"$out")" 7
    go -l -w 2 sh -c 'echo a; printf b; echo c >&2'
    is "-l: output" "$(sort <<<"$out" | tr '\n' ,)" "0: a,0: b,1: a,1: b,"
    is "-l: error" "$(sort <<<"$err" | tr '\n' ,)" "0: c,1: c,"
}

# --- signals ---

# background ARG...: dsgd-run with sleepers that would take long; its pid in
# $pid, returns once steps are made.
background() {
    rm -f "$dir"/record.*
    DSGD_RECORD=$dir/record.dsgd "$run" -w 3 "$@" >"$dir/out" 2>"$dir/err" &
    pid=$!
    for _ in {1..100}; do
        grep -q '"step":[1-9]' "$dir/record.status" 2>/dev/null && return
        sleep .1
    done
}
workers_of() { pgrep -P "$1" -f sleeper; }
gone() { # PID...: within ten seconds
    for _ in {1..200}; do
        # shellcheck disable=SC2086
        ps -o pid= -p "$(tr ' ' , <<<"$*")" | grep -q . || return 0
        sleep .05
    done
    return 1
}
background "$sleeper" -t .01 -e 1000
# shellcheck disable=SC2207
left=($(workers_of $pid))
is "three workers run" "${#left[@]}" 3
kill -KILL $pid
wait $pid 2>/dev/null
ok "dsgd-run killed: its workers are gone" gone "${left[@]}"
is "nothing is left in /dev/shm" "$(find /dev/shm -name 'dsgd*')" ""

background "$sleeper" -t .01 -e 1000
kill -TERM $pid
wait $pid
is "SIGTERM ends the workers: exit code" $? 143
is "and none is started again" "$(grep -c 'starting it again' "$dir/err")" 0

name="SIGTERM with checkpoints"
export DSGD_CHECKPOINT_DIR=$dir/ck DSGD_RING_BYTES=0
long="-t .004 -e 15 -x 1:300:9" # a worker dies in the second run
# shellcheck disable=SC2086
background "$sleeper" $long
kill -TERM $pid
wait $pid
is "$name: exit code" $? 14
is "$name: a checkpoint" "$(find "$dir/ck" -name 'step-*.ckpt' | wc -l)" 1
# shellcheck disable=SC2086
go -w 3 "$sleeper" $long
is "$name, started again: exit code" "$rc" 0
trained 3
like "$name: goes on from it" "$err" 'dsgd-run: going on from step-0'
like "$name: a worker died then" "$err" ': worker 1 started again 1 time$'
unset DSGD_CHECKPOINT_DIR DSGD_RING_BYTES

"$run" -w 2 sh -c 'trap "echo got it; exit 0" USR1; echo up
    while :; do sleep .05; done' >"$dir/out" 2>"$dir/err" &
pid=$!
for _ in {1..100}; do
    [[ $(grep -c up "$dir/out") == 2 ]] && break
    sleep .1
done
kill -USR1 $pid
wait $pid
is "SIGUSR1 is passed on: exit code" $? 0
is "to both workers" "$(grep -c 'got it' "$dir/out")" 2

tap_done
