#!/bin/bash
# Workers' own batches given in parts, on a real cluster: what a slow worker, or
# one that is stopped, had deposited counts in the step, exactly; every sample
# counts once in its epoch, and a run can be done again.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
toy=$builddir/tests/mpi/toy
audit=$builddir/tests/record_audit
cluster_start_plugin '' -N 4
four="srun -N4 --ntasks-per-node=2 --dsgd-parts=8"
train="$builddir/dsgd-train --model mlp --batch 32 --epochs 1 --seed 3
    --train-samples 12000 --progress none"

sql() { sqlite3 "$shared/$1.dsgd" "$2"; }
# run NAME OPTION... -- PROGRAM...: its output in $out, its record as NAME.
run() {
    local options=("--dsgd-record=$shared/$1.dsgd") name=$1
    shift
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    # shellcheck disable=SC2086
    out=$(job timeout -k 5 60 $four "${options[@]}" "$@" 2>&1)
    is "$name: exit code" $? 0 || diag "$out"
}
adds_up() {
    like "$1: every sample once an epoch, replicas identical" \
        "$(job "$audit" "$shared/$1.dsgd" 2>&1)" \
        'doubled 0 missing 0 wrong 0 differ 0'
}
# Steps to which a worker gave a part of its share.
cut_short() {
    sql "$1" 'select count(*) from contribution where from_step = step'
}

run static --dsgd-cutoff=static:6 -- "$toy" -n 4000 -b 16 -e 2 -t .008 \
    -s 3:.02 -s 5:.03 -c
adds_up static
at_least "static: parts of slow workers' batches" "$(cut_short static)" 20

run stopped --dsgd-cutoff=static:7 -- "$toy" -n 4000 -b 16 -e 2 -t .008 \
    -x 5:9 -c
adds_up stopped
is "stopped: three parts of eight before it was" "$(sql stopped 'select samples
    from contribution where step = 9 and worker = 5')" 6

# shellcheck disable=SC2086
run first --dsgd-cutoff=static:6 -- $train --straggle 2:3,7:2 \
    --summary "$shared/first"
adds_up first
at_least "train: parts count" "$(cut_short first)" 20
# shellcheck disable=SC2086
run again --dsgd-cutoff="replay:$shared/first.dsgd" -- $train \
    --summary "$shared/again"
checksum() { sed -n 's/.*"parameter_checksum": *//p' "$shared/$1"; }
like "train: a checksum" "$(checksum first)" '[0-9a-f]{8}'
is "its replay, nobody slow: the same parameters" "$(checksum again)" \
    "$(checksum first)"

# shellcheck disable=SC2086
run dynamic --dsgd-cutoff=dynamic \
    --dsgd-model="$srcdir/model/default.safetensors" -- $train --straggle 2:3
adds_up dynamic
at_least "dynamic: parts count" "$(cut_short dynamic)" 5
like "dynamic: decisions of batches" "$(sql dynamic 'select max(expected)
    from decision')" '^[0-8](\.|$)'
tap_done
