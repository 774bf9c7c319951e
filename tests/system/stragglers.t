#!/bin/bash
# Faults at random moments of trainings on a real cluster: nodes freeze, the
# coordinator's too, and ranks of each kind are stopped, for shorter and for
# longer than the hard timeout.  Nothing hangs, replicas stay identical, and every
# sample counts once in its epoch.
#
# DSGD_TEST_SEED repeats a run; DSGD_TEST_FREEZES, DSGD_TEST_FREEZES_N1 and
# DSGD_TEST_STOPS say how many faults of each kind there are.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
toy=$builddir/tests/mpi/toy
audit=$builddir/tests/record_audit
seed=${DSGD_TEST_SEED:-$((SRANDOM % 100000))}
epochs=${DSGD_TEST_EPOCHS:-30}
MC_TIMEOUT=180 # a round has a limit of its own
cluster_start -N 4
at_exit 'for host in n1 n2 n3 n4; do mc thaw $host; done'
diag "seed $seed"
RANDOM=$seed

# Faults, in random order: "freeze HOST" or "stop RANK".  Of two ranks a node
# the even ones carry the aggregator, rank 0 the coordinator.
mapfile -t faults < <(
    for ((i = 0; i < ${DSGD_TEST_FREEZES:-3}; i++)); do
        echo "$RANDOM freeze n$((2 + RANDOM % 3))"
    done
    for ((i = 0; i < ${DSGD_TEST_FREEZES_N1:-1}; i++)); do
        echo "$RANDOM freeze n1"
    done
    for ((i = 0; i < ${DSGD_TEST_STOPS:-4}; i++)); do
        case $((i % 3)) in
        0) echo "$RANDOM stop $((1 + 2 * (RANDOM % 4)))" ;;
        1) echo "$RANDOM stop $((2 + 2 * (RANDOM % 3)))" ;;
        2) echo "$RANDOM stop 0" ;;
        esac
    done
)
mapfile -t faults < <(printf '%s\n' "${faults[@]}" | sort -n | cut -d' ' -f2-)

# seconds TENTHS: a random time, up to so many tenths of a second.
seconds() {
    local t=$((RANDOM % $1 + 1))
    echo "$((t / 10)).$((t % 10))"
}

# pid_of RANK: of the training that writes to $record.
pid_of() {
    local pid
    for pid in $(pgrep -x toy); do
        tr '\0' '\n' <"/proc/$pid/environ" |
            grep -cxE "SLURM_PROCID=$1|DSGD_RECORD=$record" |
            grep -qx 2 && echo "$pid"
    done 2>/dev/null
}

# inject KIND WHOM: a fault, and its end.
inject() {
    local pid
    sleep "$(seconds 8)"
    kill -0 "$training" 2>/dev/null || return
    case $1 in
    freeze)
        mc freeze "$2"
        sleep "$(seconds 25)"
        mc thaw "$2"
        ;;
    stop)
        pid=$(pid_of "$2")
        [[ $pid ]] || return
        kill -STOP "$pid"
        sleep "$(seconds 25)"
        kill -CONT "$pid"
        ;;
    esac
}

under_way() { [[ -s $record ]] && (($(sql 'select count(*) from step') > 3)); }
sql() { sqlite3 "$record" "$1"; }
states() { grep -o 'state .*' "$shared/out" | sort -u | wc -l; }

# round NAME=VALUE...: a training with faults until it ends.
round() {
    local what="$*" done=0
    record=$shared/r$((++rounds)).dsgd
    job timeout -k 5 170 env "$@" DSGD_RECORD="$record" DSGD_CONF=/dev/null \
        DSGD_HARD_TIMEOUT=1 srun -N4 --ntasks-per-node=2 "$toy" -n 600 -g 600 \
        -b 8 -e "$epochs" -t 0.004 -r "$seed" >"$shared/out" 2>&1 &
    training=$!
    await 60 under_way
    while ((${#faults[@]} && done < per_round)) &&
        kill -0 "$training" 2>/dev/null; do
        # shellcheck disable=SC2086
        inject ${faults[0]}
        faults=("${faults[@]:1}")
        done=$((done + 1))
    done
    wait "$training"
    is "$what: $done faults: exit code" $? 0 || diag "$(tail "$shared/out")"
    is "$what: identical replicas" "$(states)" 1
    like "$what: every sample once an epoch" "$(<"$shared/out")" \
        "samples $((600 * epochs)) deviation 0\\.000"
    says=$(job "$audit" "$record" 2>&1)
    like "$what: so says the record" "$says" \
        "epochs $epochs .* doubled 0 missing 0 wrong 0 differ 0"
    is "$what: which is whole" "$(sql 'pragma integrity_check')" ok
    is "$what: and complete" "$(sql 'select completed from job')" 1
    diag "$says" "$(sql 'select kind, count(*) from event group by kind' |
        xargs)"
}

modes=(
    "DSGD_CUTOFF=static:5"
    "DSGD_CUTOFF=order DSGD_LATE=carry"
    "DSGD_CUTOFF=static:75% DSGD_PARTIAL=contribute DSGD_RING_BYTES=0"
    "DSGD_CUTOFF=order DSGD_RING_BYTES=0"
    "DSGD_CUTOFF=static:3 DSGD_LATE=carry DSGD_RING_BYTES=0"
    "DSGD_CUTOFF=full"
)
per_round=$(((${#faults[@]} + 1) / 2))
((per_round <= 12)) || per_round=12
rounds=0
while ((rounds < 2 || ${#faults[@]})); do
    # shellcheck disable=SC2086
    round ${modes[rounds % ${#modes[@]}]}
done
for host in n1 n2 n3 n4; do
    is "nothing is left on $host" \
        "$(mc exec "$host" sh -c 'ls /dev/shm; pgrep -x toy')" ''
done
tap_done
