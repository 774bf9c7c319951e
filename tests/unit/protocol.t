#!/bin/bash
# The models of the protocol, in all their interleavings; and that
# each fails when a line that it rests on is left out.
# shellcheck source=../tap.sh
. "$(dirname "$0")/../tap.sh"
models=$(cd "$(dirname "$0")/../protocol" && pwd)
command -v spin >/dev/null || {
    [[ ",${DSGD_REQUIRE:-}," == *,spin,* ]] || skip_all "needs spin"
    echo "Bail out! needs spin (DSGD_REQUIRE=$DSGD_REQUIRE)"
    exit 1
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

# verify MODEL [-DNAME]: its errors in $errors, "" when it did not come to an
# end.  A model that fails does so soon: compiling it well would take longer.
verify() {
    local level=-O1
    [[ $* != *BREAK* ]] || level=-O0
    rm -f pan*
    spin -a "${@:2}" "$models/$1.pml" >spin.log 2>&1 &&
        gcc $level -DSAFETY -DCOLLAPSE -w -o pan pan.c >>spin.log 2>&1 &&
        timeout 300 ./pan -n -m100000 >pan.log 2>&1
    errors=$(sed -n 's/.*errors: \([0-9]*\)$/\1/p' pan.log 2>/dev/null)
    ! grep -q 'max search depth too small\|out of memory' pan.log || errors=
}
for model in deposits parts first ring step chunks drive early nodes; do
    verify $model
    is "$model: holds in every interleaving" "$errors" 0
    for name in $(grep -o '\<BREAK_[A-Z]*$' "$models/$model.pml" | sort -u); do
        verify $model "-D$name"
        is "$model: and not with $name" "$errors" 1
    done
done
verify chunks -DWORKERS=2 -DSTEPS=1
is "chunks: nor do two helpers break a sum" "$errors" 0
tap_done
