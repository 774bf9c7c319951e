#!/bin/bash
# dsgd-replay: scores against tests/data/replay/*.expected (UPDATE=1 rewrites
# those), JSON, plot, written traces, faults and the man page.
# shellcheck source=../tap.sh
. "$(dirname "$0")/../tap.sh"
srcdir=${DSGD_SRCDIR:?}
replay=${DSGD_BUILDDIR:?}/dsgd-replay
traces=$srcdir/tests/data/traces
expected=$srcdir/tests/data/replay
model=$srcdir/tests/data/model/set-prototype.safetensors
simple=full,static-best,static-tuned,elfving,order,last,rolling,ewma
export LC_ALL=C.UTF-8
unset DSGD_MODEL

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# scores ARGUMENT...: the table without what was measured.
scores() { "$replay" -P "$@" | cut -d'|' -f1-7; }

# golden NAME ARGUMENT...
golden() {
    local name=$1
    shift
    scores --policies "$simple" "$@" >"$dir/out" 2>&1
    [[ $UPDATE == 1 ]] && cp "$dir/out" "$expected/$name.expected"
    ok "$name: scores as before" diff -u "$expected/$name.expected" "$dir/out"
}

# fails CODE TEXT ARGUMENT...
fails() {
    local code=$1 text=$2 got
    shift 2
    "$replay" "$@" >"$dir/out" 2>"$dir/err"
    got=$?
    is "exit code $code: $text" \
        "$got $(grep -cF -- "dsgd-replay: $text" "$dir/err") $(wc -l <"$dir/err")" \
        "$code 1 1"
}

golden traces "$traces"/*.csv
golden synth --synth iid:n=16,T=120 --synth bimodal:n=16,T=120,seed=2 \
    --synth mix:n=40,N=5,T=120,seed=3
golden busy --late busy --synth mix:n=40,N=5,T=120,seed=3
golden poll --late poll:8 --overhead 5% --synth mix:n=40,N=5,T=120,seed=3
simple=parts-shared,parts-last,no-idle golden parts --late busy --parts 4 \
    --part-cost 1% --synth mix:n=40,N=5,T=120,seed=3 "$traces/pai-job4.csv"
golden censored --observe censored --warmup 30 --synth mix:n=16,T=120,seed=3

# A timing model decides; figures of the C library and of BLAS come in here.
"$replay" --json --model "$model" --late busy --warmup 20 \
    --policies dynamic,full,static-best --plot "$dir/plot.svg" \
    --synth bimodal:n=16,T=150 --synth iid:n=16,T=60 >"$dir/json"
is "with a model" "$?" 0
ok "JSON has the documented members, and the scores make sense" \
    python3 - "$dir/json" <<'PYTHON'
import json, sys
a = json.load(open(sys.argv[1]))
assert a["schema"] == 1 and set(a) == {"schema", "traces"}
t = a["traces"][0]
assert set(t) == {"trace", "workers", "steps", "late", "parts", "oracle",
    "no_idle", "policies"}
assert t["trace"] == "bimodal:n=16,T=150" and t["workers"] == 16
assert t["steps"] == 150 and t["late"] == "busy"
p = {p["name"]: p for p in t["policies"]}
assert list(p) == ["dynamic", "full", "static-best"]
for q in p.values():
    assert set(q) == {"name", "throughput", "of_oracle", "vs_full",
        "vs_static_best", "of_bound", "mean_contributors", "mean_claims",
        "hidden_us", "tick_us"}
    assert abs(q["of_bound"] - q["throughput"] / t["no_idle"]) < 1e-6
    assert q["mean_claims"] is None
    assert abs(q["of_oracle"] - q["throughput"] / t["oracle"]["throughput"]) < 1e-6
    assert 0 < q["of_oracle"] <= 1 and 1 <= q["mean_contributors"] <= 16
    assert 0 <= q["hidden_us"]["p50"] <= q["hidden_us"]["p99"]
assert p["full"]["vs_full"] == 1 and p["full"]["tick_us"] is None
assert p["static-best"]["vs_static_best"] == 1
assert p["dynamic"]["vs_full"] > 1 and p["dynamic"]["tick_us"]["p50"] > 0
PYTHON
ok "the plot is well-formed SVG with a bar a policy and trace" \
    python3 - "$dir/plot.svg" <<'PYTHON'
import sys, xml.etree.ElementTree as tree
svg = tree.parse(sys.argv[1]).getroot()
ns = "{http://www.w3.org/2000/svg}"
assert svg.tag == ns + "svg"
assert len(svg.findall(f"{ns}rect/{ns}title")) == 6
PYTHON
"$replay" --json --model "$model" --late busy --warmup 20 --parts 3 \
    --policies full,parts-own,parts-shared,parts-last,parts-model,no-idle \
    --plot "$dir/parts.svg" --synth mix:n=16,T=150,seed=2 >"$dir/json"
is "in parts" "$?" 0
ok "JSON of policies in parts" python3 - "$dir/json" "$dir/parts.svg" <<'PYTHON'
import json, sys, xml.etree.ElementTree as tree
t = json.load(open(sys.argv[1]))["traces"][0]
p = {p["name"]: p for p in t["policies"]}
assert t["parts"] == 3 and p["no-idle"]["of_bound"] == 1
assert p["no-idle"]["throughput"] == t["no_idle"]
assert p["no-idle"]["mean_claims"] is None
for name in "parts-shared", "parts-last", "parts-model":
    q = p[name]
    assert q["mean_contributors"] == 16 and q["of_bound"] < 1
    assert q["vs_full"] > 1 and 2 < q["mean_claims"] < 4
assert 0 < p["parts-own"]["mean_contributors"] <= 16
assert 1 <= p["parts-own"]["mean_claims"] <= 3
assert p["parts-model"]["of_bound"] > .93
assert p["parts-last"]["of_bound"] > p["parts-shared"]["of_bound"]
assert p["parts-model"]["of_oracle"] > 1 and p["parts-model"]["tick_us"]
bars = {r[0].text.split()[0]: float(r.get("height")) for r in
    tree.parse(sys.argv[2]).getroot() if len(r)}
assert len(bars) == 6
assert bars["full"] < bars["parts-model"] < bars["no-idle"]
PYTHON
for rule in paper ratio renewal live; do
    ok "--rule $rule" "$replay" --model "$model" --rule $rule \
        --policies dynamic --synth mix:n=12,T=60
done
is "the same seed gives the same scores" \
    "$(scores --model "$model" --late poll:8 --seed 4 --synth mix:n=16,T=80)" \
    "$(scores --model "$model" --late poll:8 --seed 4 --synth mix:n=16,T=80)"

ok "a synthetic trace is written" \
    "$replay" --synth mix:n=12,N=3,T=50 --write "$dir/mix.csv"
is "with nodes and telemetry" \
    "$(wc -l <"$dir/mix.csv") $(sort -u "$dir/mix.nodes" | xargs) $(wc -l <"$dir/mix.telemetry.csv")" \
    "50 n0 n1 n2 151"
scores() { "$replay" -P "$@" | cut -d'|' -f2-7; }
is "and scores as the synthetic cluster itself" \
    "$(scores --policies ewma,rolling "$dir/mix.csv")" \
    "$(scores --policies ewma,rolling --synth mix:n=12,N=3,T=50)"
long=$(printf 'x%.0s' {1..90})
cp "$dir/mix.csv" "$dir/$long.csv"
is "a long name is not cut" "$("$replay" -P --policies full "$dir/$long.csv" | sed -n '2s/|.*//p')" "$long"
cp "$dir/mix.csv" "$dir"/$'\xff.csv'
like "a name that is not UTF-8 has its JSON" \
    "$("$replay" --json --policies full "$dir"/$'\xff.csv' 2>&1)" '"trace": "\?"'
sed -i 's/,steal,/,weather,/' "$dir/mix.telemetry.csv"
like "an unknown telemetry column is a warning" \
    "$("$replay" --policies full "$dir/mix.csv" 2>&1 >"$dir/out")" \
    'warning: .*mix.telemetry.csv: .* ignored: weather$'

fails 2 'give a TRACE.csv or --synth NAME'
fails 2 '--policies: "slow" is none of full|static-best' --policies full,slow x
fails 2 '--policies: full is there twice' --policies full,full x
fails 2 '--late: "lazy" is none of fresh|busy|poll:M' --late lazy x
fails 2 '--late: poll:0: give 1' --late poll:0 x
fails 2 '--late-parts: "keep" is none of requeue, carry' --late-parts keep x
fails 2 '--late-parts: carry needs --late=busy' --late-parts carry x
fails 2 '--late: poll: "x": give a whole number' --late poll:x x
fails 2 '--observe: "all" is none of late|progress|censored' --observe all x
fails 2 '--overhead: "2": give a percentage' --overhead 2 x
fails 2 '--overhead: "nan%"' --overhead nan% x
fails 2 '--parts: "0": give 1 part or more' --parts 0 x
fails 2 '--parts: "1001": give a whole number, at most 1000' --parts 1001 x
fails 2 '--part-cost: "1": give a percentage' --part-cost 1 x
fails 2 '--part-noise: "-1%": give a percentage' --part-noise -1% x
fails 2 '--warmup: "-1": give a whole number' --warmup -1 x
fails 2 '--seed: "": give a whole number' --seed= x
fails 2 '--rule: "best" is none of' --rule best x
fails 2 '--json and -P are two formats' --json -P x
fails 2 '--no-such: no such option' --no-such
fails 2 '--pa: no such option, or short for several' --pa 1 x
fails 2 '--json takes no value' --json=3 x
fails 2 '--late: the value is missing' --late
fails 2 'scenario: "storm" is none of iid|' --synth storm
fails 2 '--write: x.csv takes one trace, not 2' --write x.csv --synth iid a.csv
fails 3 'pai-job1: 300 steps leave none after a warm-up of 300' --warmup 300 "$traces/pai-job1.csv"
fails 5 "$dir/none.csv: No such file" "$dir/none.csv"
fails 5 "$dir/no/x.csv: No such file" --synth iid --write "$dir/no/x.csv"
fails 5 "--plot: $dir/no/x.svg: No such file" --policies full --plot "$dir/no/x.svg" \
    "$traces/pai-job1.csv"
# No room: SIGXFSZ is ignored, as a write must fail instead.
full_plot() (
    trap '' XFSZ
    ulimit -f 0
    "$replay" --policies full --plot "$1" "$traces/pai-job1.csv" 2>&1 >/dev/null |
        cat
)
like "a plot that has no room" "$(full_plot "$dir/cut.svg")" \
    '^dsgd-replay: --plot: .*/cut.svg: File too large$'
ok "is not left behind" test ! -e "$dir/cut.svg"
ln -s /dev/full "$dir/full"
fails 5 "--plot: $dir/full: No space left" --policies full --plot "$dir/full" \
    "$traces/pai-job1.csv"
ok "but no device is removed" test -e "$dir/full"
printf 'SQLite format 3\0 and more' >"$dir/run.dsgd"
fails 6 "$dir/run.dsgd: is a record, not a trace in CSV; dsgd-fit and dsgd-report" \
    "$dir/run.dsgd"
printf '1,2\n3,\n' >"$dir/bad.csv"
fails 6 "$dir/bad.csv:2:2: \"\" is missing" "$dir/bad.csv"
ok "a model of one cluster" "${DSGD_BUILDDIR:?}/dsgd-fit" --kind dmm --steps 1 \
    --progress none -o "$dir/dmm" "$traces/pai-job1.csv"
fails 13 '--policies: parts-model needs a timing model; give one of kind set' \
    --policies parts-shared,parts-model --model "$dir/dmm" --synth iid
fails 13 '--policies: dmm needs a timing model' --policies dmm --model "$model" \
    --synth iid
ok "$dir/bad.csv is no model" test "$("$replay" --model "$dir/bad.csv" \
    --synth iid >"$dir/out" 2>&1; echo $?)" = 6

is "--help and the man page have the same options" \
    "$("$replay" --help | grep -o -- '--[a-z][a-z0-9-]*' | grep -v dsgd-replay | sort -u)" \
    "$(sed -n 's/^\.It Fl \(. , Fl \)\{0,1\}-\([a-z0-9-]*\).*/\2/p' "$srcdir/doc/dsgd-replay.1" | sed 's/^/--/' | sort -u)"
is "the man page names every policy" \
    "$(sed -n '/^.Sh POLICIES/,/^.Sh TRACES/s/^\.It Cm //p' "$srcdir/doc/dsgd-replay.1" | sort | xargs)" \
    "$(tr , '\n' <<<"$simple,dmm,dynamic,parts-own,parts-shared,parts-last,parts-model,no-idle" | sort | xargs)"
tap_done
