#!/bin/bash
# dsgd-fit as a user runs it: traces, records, synthetic clusters, resuming,
# same bits, messages.
# shellcheck source=../tap.sh
. "$(dirname "$0")/../tap.sh"
build=${DSGD_BUILDDIR:-$PWD}
src=${DSGD_SRCDIR:-$(dirname "$0")/../..}
fit=$build/dsgd-fit
tmp=$(mktemp -d /tmp/dsgd-fit-XXXXXX)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

# A trace of 160 steps of 4 workers, one of them slow from time to time.
awk 'BEGIN { srand(4); for (t = 0; t < 160; t++) { for (j = 0; j < 4; j++)
    printf "%s%.6f", j ? "," : "", .1 * exp(.05 * (rand() + rand() - 1)) \
        * (j == 2 && int(t / 20) % 2 ? 2 : 1); print "" } }' >trace.csv

# code NAME WANT CMD...: exit code.  What it printed is in $out.
code() {
    local name=$1 want=$2
    shift 2
    out=$("$@" 2>&1)
    is "$name" $? "$want"
}

code "a dmm is fitted to a trace" 0 "$fit" --kind dmm --steps 200 -o a.safetensors trace.csv
like "it says how good it is" "$out" \
    'a\.safetensors: held-out loss -?[0-9.]+ nat a worker and step after [0-9]+ of 200 steps'
like "progress is plain lines in a file" "$out" '100%  step 200  loss .* ETA 0:00'
code "again" 0 "$fit" --kind dmm --steps 200 -o b.safetensors trace.csv
ok "the same seed gives the same file" cmp a.safetensors b.safetensors
code "a refit from a model" 0 "$fit" --kind dmm --steps 20 --warm-start a.safetensors \
    -o c.safetensors trace.csv
code "a score" 0 "$fit" --kind dmm --score --warm-start a.safetensors trace.csv
like "is a number" "$out" 'all +-?[0-9.]+$'
"$fit" --kind dmm --score --warm-start a.safetensors trace.csv >/dev/full 2>&1
is "which can't be written" $? 5

code "of more workers than a batch has room for otherwise" 0 "$fit" \
    --synth=iid:n=700,N=4 --steps 1 -o wide.safetensors
code "a set model from a synthetic cluster" 0 "$fit" --synth=iid:n=8 --steps 3 \
    --progress none -o s.safetensors
is "--progress none prints nothing" "$out" ""
code "on top of it, a trace" 0 "$fit" --warm-start s.safetensors --steps 3 -o t.safetensors trace.csv
ok "the files have the training's facts" grep -aq '"trained_on":"1 traces of 160 steps"' t.safetensors

if [[ -x $build/tests/record_make ]]; then
    "$build/tests/record_make" static "$tmp/r.dsgd"
    code "a record is learnt from" 0 "$fit" --warm-start s.safetensors --steps 3 -o r.safetensors r.dsgd
else
    tap_result 1 "tests/record_make is built"
fi

# Broken off by a signal, then resumed: the bits of one run.
"$fit" --kind dmm --steps 1500 -o whole.safetensors --progress none trace.csv
"$fit" --kind dmm --steps 1500 -o part.safetensors --progress none trace.csv 2>stopped &
pid=$!
for _ in $(seq 200); do
    [[ -e part.safetensors.checkpoint ]] && break
    sleep .02
done
kill -INT $pid
wait $pid
is "a signal ends it with a code of its own" $? 1
like "and a hint" "$(cat stopped)" 'stopped at step [0-9]+: go on with --resume'
ok "its model is not written yet" test ! -e part.safetensors
code "it is resumed" 0 "$fit" --kind dmm --steps 1500 --resume -o part.safetensors \
    --progress none trace.csv
ok "and gives the bits of one run" cmp whole.safetensors part.safetensors
ok "its checkpoint is gone" test ! -e part.safetensors.checkpoint

# The model can't be written at the end: the training is not lost.
"$fit" --kind dmm --steps 1500 -o full.safetensors --progress none trace.csv 2>stopped &
pid=$!
for _ in $(seq 200); do
    [[ -e full.safetensors.checkpoint ]] && break
    sleep .02
done
mkdir full.safetensors
wait $pid
is "a model that can't be written" $? 5
like "is told, and what to do" "$(cat stopped)" \
    'full\.safetensors: Is a directory; nothing is lost: --resume .* full\.safetensors\.checkpoint$'
rmdir full.safetensors
code "it is written later" 0 "$fit" --kind dmm --steps 1500 --resume -o full.safetensors \
    --progress none trace.csv
ok "with the bits of one run" cmp whole.safetensors full.safetensors
code "a folder in place of a file" 2 "$fit" --kind dmm --steps 1 -o . trace.csv
like "is told before the training" "$out" '--output: \. is a folder: name a file'
ok "no checkpoint is left" test -z "$(find . -name '*.checkpoint')"

code "a trace from a pipe" 0 "$fit" --kind dmm --steps 1 -o pipe.safetensors <(cat trace.csv)
code "and from its file" 0 "$fit" --kind dmm --steps 1 -o file.safetensors trace.csv
ok "give the same model" cmp pipe.safetensors file.safetensors

head -50 trace.csv >short.csv
code "too few data" 3 "$fit" --kind dmm -o x.safetensors short.csv
like "are counted" "$out" 'short: too few data: it has 50 steps, and 125 are needed'
code "too few for a set model" 3 "$fit" -o x.safetensors short.csv
like "are counted, too" "$out" 'too few data: 50 steps'
code "a model of the other kind" 2 "$fit" --warm-start a.safetensors -o x.safetensors trace.csv
like "is told" "$out" 'a\.safetensors is of kind dmm: give --kind dmm'
code "a file that is no model" 6 "$fit" --warm-start trace.csv -o x.safetensors trace.csv
code "a trace that is not there" 5 "$fit" -o x.safetensors no.csv
code "a folder that is not there" 5 "$fit" --kind dmm --steps 1 -o no/x.safetensors trace.csv
code "no data" 2 "$fit" -o x.safetensors
code "an unknown option" 2 "$fit" --frobnicate
like "is named" "$out" '--frobnicate: there is no such option'

# --help and the manual page name the same options.
help=$("$fit" --help | grep -o '^  --[a-z-]*' | sort)
page=$(sed -n 's/^\.It .*Fl -\([a-z-]*\).*/  --\1/p' "$src/doc/dsgd-fit.1" | sort)
is "--help and the manual page agree" "$help" "$page"
tap_done
