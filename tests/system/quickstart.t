#!/bin/bash
# ./quickstart as a newcomer runs it: with a noisy node, which the report names,
# and without, when it names none.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
need_slurm
export DSGD_MINICLUSTER_DIR=$cluster
at_exit 'mc down'
log=$(mktemp)
at_exit 'rm -f "$log"'

timeout -k 30 600 "$srcdir/quickstart" >"$log" 2>&1
is "quickstart exits 0" $? 0 || tail -n 20 "$log" | sed 's/^/#   /'
report=$(sed -n '/^== side by side/,$p' "$log")
for mode in full static:6 order dynamic; do
    like "unique samples/s of $mode" "$report" "$mode +[89][0-9.]+ % +[0-9]{3,}"
done
rate() { awk -v mode="$1" '$1 == mode { print $4; exit }' <<<"$report"; }
at_least "static is faster than full with a noisy node" \
    "$(rate static:6)" "$(rate full)"
at_least "so is order" "$(rate order)" "$(rate full)"
at_least "so is dynamic" "$(rate dynamic)" "$(rate full)"
like "the report names the noisy node" "$report" 'n3 is slow'
is "and no other" "$(grep -c ' is slow' <<<"$report")" 1
ok "the cluster is gone" test ! -e "$cluster"

timeout -k 30 600 "$srcdir/quickstart" --quiet-nodes --cutoffs=full \
    >"$log" 2>&1
is "quickstart --quiet-nodes exits 0" $? 0 || tail -n 20 "$log" | sed 's/^/#   /'
report=$(sed -n '/^== the timing report/,$p' "$log")
like "the report names no node" "$report" 'No slow node'
is "none at all" "$(grep -c ' is slow' <<<"$report")" 0 || diag "$report"
timeout 60 "$srcdir/quickstart" --nonsense >"$log" 2>&1
is "an unknown option" $? 2
tap_done
