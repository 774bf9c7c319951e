#!/bin/bash
# Every sample counts once in its epoch, whatever becomes of those who are late:
# a training with random stragglers, abandoned batches and stopped processes, in
# every mode.  DSGD_TEST_SEED chooses others.

# shellcheck source=tests/mpi/lib.sh
. "$(dirname "$0")/lib.sh"
toy=${DSGD_BUILDDIR:?}/tests/mpi/toy
audit=$DSGD_BUILDDIR/tests/record_audit
seed=${DSGD_TEST_SEED:-$((SRANDOM % 100000))}
diag "seed $seed"
RANDOM=$seed

# stop_some MPIRUN: stop a random rank for a moment, again and again.
stop_some() {
    local ranks pid
    while sleep 0.1 && kill -0 "$1"; do
        mapfile -t ranks < <(pgrep -P "$1" -x toy)
        ((${#ranks[@]})) || continue
        pid=${ranks[RANDOM % ${#ranks[@]}]}
        kill -STOP "$pid"
        sleep "0.0$((RANDOM % 10))"
        kill -CONT "$pid"
        echo >>"$dir/stops"
    done 2>/dev/null
}

# run [NAME=VALUE]... -- TOY-ARGUMENTS: on 6 ranks, some of them stopped now and
# then; what it printed in $out, what its record says in $says.
run() {
    local vars=()
    while [[ $1 != -- ]]; do
        vars+=("$1")
        shift
    done
    shift
    rm -f "$dir/r.dsgd"
    env "${vars[@]}" DSGD_RECORD="$dir/r.dsgd" timeout -k 5 100 \
        mpirun --oversubscribe -n 6 "$toy" -n 600 -g 600 -b 8 -e 3 \
        -t 0.002 -r "$seed" "$@" >"$dir/out" 2>&1 &
    local job=$! stopper
    sleep 0.2
    stop_some "$(pgrep -P "$job" -x mpirun || echo "$job")" &
    stopper=$!
    wait "$job"
    rc=$?
    kill "$stopper" 2>/dev/null
    wait "$stopper" 2>/dev/null
    out=$(<"$dir/out")
    says=$("$audit" "$dir/r.dsgd" 2>&1)
}

states() { grep -o 'state .*' <<<"$out" | sort -u | wc -l; }
sql() { sqlite3 "$dir/r.dsgd" "$1"; }

for late in requeue drop carry; do
    for partial in discard contribute; do
        for cutoff in static:3 order; do
            [[ $cutoff$partial == orderdiscard ]] && continue
            what="$late, $partial, $cutoff"
            run DSGD_CUTOFF=$cutoff DSGD_LATE=$late DSGD_PARTIAL=$partial --
            is "$what: exit code" $rc 0 || diag "$out"
            is "$what: identical replicas" "$(states)" 1
            like "$what: no sample is used twice" "$out" 'over 0\.000 epochs 3'
            [[ $late == drop ]] ||
                like "$what: each is used once an epoch" "$out" \
                    'samples 1800 deviation 0\.000'
            missing=0
            [[ $late == drop ]] && missing='[0-9]+'
            like "$what: the record says the same" "$says" \
                "epochs 3 .* doubled 0 missing $missing wrong 0 differ 0"
            carries=0
            [[ $late == carry || $partial == contribute ]] && carries='[1-9]'
            [[ $cutoff == order ]] ||
                like "$what: gradients carried" "$says" "carried $carries"
            like "$what: some gave less than their share" "$says" 'parts [1-9]'
            diag "$says"
        done
    done
done

# --- limits and the learning rate ---

word() { sed "s/.*$1 \([0-9.]*\).*/\1/" <<<"$says"; }
slow=(-s 4:0.03)
for late in requeue carry; do
    run DSGD_CUTOFF=static:3 DSGD_LATE=$late -- "${slow[@]}"
    diag "no limit: $says"
    run DSGD_CUTOFF=static:3 DSGD_LATE=$late DSGD_MAX_CUTS=2 -- "${slow[@]}"
    at_most "$late: at most two cuts in a row" "$(word cuts)" 2
    run DSGD_CUTOFF=static:3 DSGD_LATE=$late DSGD_MAX_CUT_SHARE=20% -- \
        "${slow[@]}"
    at_most "$late: at most a fifth of the steps" "$(word share)" 20
done

run DSGD_CUTOFF=static:3 DSGD_LATE=carry DSGD_LR_SCALE=linear --
is "linear: the learning rate follows the samples" "$(sql 'select count(*)
    from step where abs(lr_scale - samples / 48.0) > 1e-12')" 0
is "and is what the program was told" \
    "$(sed -n 's/.* scaled \([0-9.]*\) .*/\1/p' <<<"$out")" \
    "$(sql "select printf('%.3f', sum(lr_scale * samples)) from step")"
run DSGD_CUTOFF=static:3 DSGD_LR_SCALE=sqrt --
is "sqrt" "$(sql 'select count(*) from step
    where abs(lr_scale * lr_scale - samples / 48.0) > 1e-12')" 0
is "settings are recorded" "$(sql "select group_concat(name || '=' || value,
    ' ') from (select * from setting order by name)")" \
    "batch_slack=0% lr_scale=sqrt max_cut_share=100% max_cuts=0 partial=discard parts=8 work=own"
at_least "processes were stopped" "$(wc -l <"$dir/stops")" 20
tap_done
