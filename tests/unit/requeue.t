#!/bin/bash
# dsgd-requeue.sbatch, with a Slurm that says what it is told: when the job goes
# back into the queue, and when it does not.
srcdir=${DSGD_SRCDIR:?}
# shellcheck source=tests/tap.sh
. "$srcdir/tests/tap.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin"
# srun CODE [CHECKPOINT-DIRECTORY]: makes a later checkpoint and ends.
cat >"$dir/bin/srun" <<'END'
#!/bin/bash
if [[ ${2-} ]]; then
    mkdir -p "$2"
    n=$(find "$2" -name '*.ckpt' | wc -l)
    touch "$2/step-$(printf %012d $((n + 1))).ckpt"
fi
exit "$1"
END
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "${STATE:-RUNNING}"\n' >"$dir/bin/squeue"
printf '#!/bin/sh\necho "$*" >>../requeued\n' >"$dir/bin/scontrol"
chmod +x "$dir/bin"/*
export PATH=$dir/bin:$PATH SLURM_JOB_ID=7 SLURM_JOB_NAME='a & b'
export DSGD_CHECKPOINT_DIR="$dir/%u/%x-%j" DSGD_REQUEUE_FAILURES=2
mkdir "$dir/work"
cd "$dir/work" || exit

# go CODE [DIRECTORY]: the job once; its exit code in $rc, what Slurm was asked
# for in $asked.
go() {
    rm -f "$dir/requeued"
    said=$(bash "$srcdir/etc/dsgd-requeue.sbatch" "$@" 2>&1)
    rc=$?
    asked=$(cat "$dir/requeued" 2>/dev/null)
}
again() { is "$1" "$asked" "requeue 7" || diag "$said"; }
over() { is "$1" "$rc $asked" "$2 " || diag "$said"; }

go 14
again "ended at a checkpoint: requeued"
go 0
over "through: not requeued" 0
go 2
over "a wrong option: not requeued" 2
STATE=CANCELLED go 137
over "cancelled: not requeued" 137
for n in 1 2; do
    go 137
    again "killed before its first checkpoint, $n: requeued"
done
go 137
over "three times: not requeued" 137
like "and says why" "$said" 'failed 3 times in a row after its start'
checkpoints=$dir/$(id -un)/a\ \&\ b-7
for n in 1 2 3 4; do
    go 137 "$checkpoints"
    again "killed, with a later checkpoint each time, $n: requeued"
done
is "nothing else is left" "$(ls)" requeue-failures.7
tap_done
