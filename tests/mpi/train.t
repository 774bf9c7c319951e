#!/bin/bash
# dsgd-train on several ranks of one node: what it computes, and how it fails.
# shellcheck source=tests/mpi/lib.sh
. "$(dirname "$0")/lib.sh"
train=$DSGD_BUILDDIR/dsgd-train
export DSGD_RECORD=off
need "$data" dataset-fashion-mnist

ranks=4
train() { # arguments, on $ranks ranks; output and exit code are kept
    timeout -k 5 200 mpirun --oversubscribe -n "$ranks" "$train" \
        --progress plain "$@" >"$dir/out" 2>&1
    rc=$?
}
said() { grep '^dsgd-train: ' "$dir/out"; }
value() { # KEY of the summary, not of its epochs
    sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$dir/summary" | head -1
}

# difference CURVE CURVE STEPS: largest relative difference of their losses
difference() {
    paste -d, "$1" "$2" | awk -F, -v steps="$3" 'NR > 1 {
        d = $2 / $6 - 1; if (d < 0) d = -d; if (!(d <= m)) m = d; n++ }
        END { if (n != steps) print n " steps"; else printf "%.9f\n", m }'
}

# Four ranks with 32 samples each do what one does with 128.  A high learning
# rate makes any rounding grow, for the cnn already at the default: there the
# losses part at some step after the fiftieth with some kernels of OpenBLAS.
for case in "cnn .01 40" "softmax .1 100" "mlp .1 100"; do
    read -r model lr steps <<<"$case"
    for ranks in 1 4; do
        train --model "$model" --lr "$lr" --max-steps "$steps" \
            --batch $((128 / ranks)) --loss-curve "$dir/curve.$ranks"
        is "$model on $ranks ranks: exit code" $rc 0
    done
    at_most "$model: the same losses on 1 and 4 ranks" \
        "$(difference "$dir/curve.1" "$dir/curve.4" "$steps")" 0.0001
done
like "a run of 100 steps ends with a test" "$(cat "$dir/out")" \
    "epoch 1/5: test accuracy .* 100 steps  contributors 4.00"

for mode in static:3 order; do
    DSGD_CUTOFF=$mode train --model mlp --epochs 2 --lr .1 \
        --train-samples 12000 --straggle 2:20 --summary "$dir/summary"
    is "$mode with a straggler: exit code" $rc 0
    is "$mode: nobody complains, of replicas that differ above all" "$(said)" ""
    is "$mode: every sample once an epoch" "$(value unique_samples)" 24000
    at_least "$mode: it learns" "$(value test_accuracy)" 0.75
done
is "the cutoff is in the summary" "$(value cutoff)" order
like "the checksum too" "$(value parameter_checksum)" '^[0-9a-f]{16}$'
for try in 1 2; do
    train --model mlp --max-steps 50 --summary "$dir/summary"
    value parameter_checksum >"$dir/checksum.$try"
done
ok "a run repeated ends with the same bits" \
    cmp "$dir/checksum.1" "$dir/checksum.2"

train --model softmax --train-samples 100 --epochs 3 --batch 32
is "fewer samples than a step takes: exit code" $rc 0

# One line for an error that all ranks have, or that one has.
fails() { # NAME CODE PATTERN arguments
    local name=$1 code=$2 pattern=$3
    shift 3
    train "$@"
    is "$name: exit code" $rc "$code"
    is "$name: one line" "$(said | wc -l)" 1
    like "$name: what it says" "$(said)" "$pattern"
}
fails "a bad option" 2 '--model: "resnet" is none of' --model resnet
fails "no data folder" 5 \
    '^dsgd-train: --data: /nonexistent: No such file.*dataset-fashion-mnist$' \
    --data /nonexistent
fails "a learning rate that is too high" 11 'lower --lr' \
    --model mlp --lr 1e6 --warmup 0
fails "a summary that can't be written" 5 \
    'rank 0 on .*: --summary: /nonexistent/s: No such file' \
    --model softmax --summary /nonexistent/s
fails "a straggler that is not there" 2 '--straggle: there is no rank 4 among 4' \
    --model softmax --straggle 3:2,4:2
DSGD_CUTOFF=static:5 fails "K larger than the ranks" 2 \
    'static:5 waits for more workers than the 4' --model softmax
mkdir "$dir/short"
cp "$data"/*-ubyte.gz "$dir/short"
head -c 1000000 "$data/train-images-idx3-ubyte.gz" \
    >"$dir/short/train-images-idx3-ubyte.gz"
fails "a truncated file" 6 'is cut short: [0-9]+ bytes of 47040016$' \
    --data "$dir/short"

timeout -k 5 100 mpirun --oversubscribe -n 2 "$train" --model softmax : \
    -n 1 "$train" --model softmax --data /nonexistent : \
    -n 1 "$train" --model softmax >"$dir/out" 2>&1
is "one rank without data: exit code" $? 5
is "one rank without data: one line" "$(said | wc -l)" 1
like "one rank without data: who and where" "$(said)" \
    "rank 2 on $(hostname): --data: /nonexistent: "
tap_done
