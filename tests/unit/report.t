#!/bin/sh
# What dsgd-report prints, against tests/data/report/*.expected; UPDATE=1
# rewrites those.  Options, exit codes, and the man page.
srcdir=${DSGD_SRCDIR:?} builddir=${DSGD_BUILDDIR:?}
report=$builddir/dsgd-report
make_record=$builddir/tests/record_make
expected=$srcdir/tests/data/report
export TZ=UTC LC_ALL=C.UTF-8
unset DSGD_CONF DSGD_RECORD_DIR

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
n=0

ok() { # STATUS NAME
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
}

# golden NAME ARGUMENT...: the output is as expected, the exit code 0.
golden() {
    name=$1
    shift
    (cd "$dir/cwd" && "$report" "$@") >"$dir/out" 2>"$dir/err"
    code=$?
    sed -i "s/\"version\": \"[0-9.]*\"}/\"version\": \"VERSION\"}/" "$dir/out"
    if [ "$UPDATE" = 1 ]; then
        cp "$dir/out" "$expected/$name.expected"
    fi
    if diff -u "$expected/$name.expected" "$dir/out" >"$dir/diff" &&
        [ $code -eq 0 ] && [ ! -s "$dir/err" ]; then
        ok 0 "$name"
    else
        ok 1 "$name"
        sed 's/^/# /' "$dir/diff" "$dir/err"
        echo "# exit code $code"
    fi
}

# fails CODE TEXT ARGUMENT...: exit code, one line on stderr that has TEXT.
fails() {
    want=$1 text=$2
    shift 2
    (cd "$dir/cwd" && "$report" "$@") >"$dir/out" 2>"$dir/err"
    code=$?
    [ $code -eq "$want" ] && [ "$(wc -l <"$dir/err")" -eq 1 ] &&
        grep -qF -- "$text" "$dir/err" && grep -q '^dsgd-report: ' "$dir/err"
    status=$?
    ok $status "exit code $want: $text"
    [ $status -eq 0 ] || sed "s/^/# $code /" "$dir/err"
}

# prints TEXT ARGUMENT...: the whole output.
prints() {
    text=$1
    shift
    (cd "$dir/cwd" && "$report" "$@") >"$dir/out" 2>"$dir/err"
    [ "$(cat "$dir/out")" = "$text" ]
    status=$?
    ok $status "dsgd-report $*"
    [ $status -eq 0 ] || sed 's/^/# /' "$dir/out" "$dir/err"
}

mkdir -p "$dir/records/alice" "$dir/records/bob" "$dir/cwd"
records=$dir/records
for scenario in quiet:alice/100.0 noisy:alice/101.0 static:alice/102.0 \
    part:alice/103.0 stuck:alice/104.0 odd:alice/105_7.0 short:bob/106.0; do
    "$make_record" "${scenario%%:*}" "$records/${scenario#*:}.0.dsgd" ||
        echo "# no ${scenario%%:*}"
done
export DSGD_RECORD_DIR="$records"

golden quiet -j 100
golden noisy -j 101.0
golden static -j 102
golden part -j 103
golden stuck -j 104
golden odd -j 105
golden many -X -j 100,101,102,103,104,105
golden parsable -P -j 100,101
golden parsable-old -p -n --by=node -j 101
golden odd-parsable -P --by=node -o JobID,JobName,User,Node,Start,End,Steps,Cut,StepMean,PsiIo -j 105
golden widths -n -j 100,102 -o 'jobid%-8,CutOff%5,Start,Elapsed,ElapsedRaw,StepMean%12,StepMeanRaw,stepp95raw%10'
golden by-worker --by=worker -j 104
golden json --json -j 102,104
golden helpformat -e

lines() { printf '%s\n' "$@"; }

prints "$(lines 'n1;;' 'n2;;' 'n3;;' 'n4;;')" \
    -j 101 -p -n --delimiter=';' -o Node,PsiIo
prints '' -n -j 999
prints 'JobID|Cut' -P -o JobID,Cut -j 100.1
prints '' --by=node -n -j 10
prints '105.0;0;a|b\x0a\x5cc\xff' -n -P --delimiter ';' \
    -o JobID,Restart,JobName "$records/alice/105_7.0.0.dsgd"
prints '106.0|RUNNING|Unknown' -n -P -o JobID,State,End -j 106
prints "$(lines 106.0 100.0)" -n -P -o JobID \
    "$records/bob/106.0.0.dsgd" "$records/alice/100.0.0.dsgd"
prints 100.0 -n -P -o JobID -u alice -S 2026-01-31 -E 2026-02-01 -j 100,106
prints '' -n -P -o JobID -S 2026-02-01 -j 100
prints '' -n -P -o JobID -E 2026-01-30T23:59:59 -j 100
prints '' -n -P -o JobID -u bob -j 100
prints 106.0 -n -P -o JobID -u bob

DSGD_RECORD_DIR=/nowhere
prints 100.0 -n -P -o JobID --record-dir "$records/alice" -j 100
unset DSGD_RECORD_DIR
printf '# where\n  RecordDir = %s # here\nother=1\n' "$records" >"$dir/dsgd.conf"
export DSGD_CONF="$dir/dsgd.conf"
prints 100.0 -n -P -o JobID -j 100
DSGD_CONF=$dir/absent
fails 5 "DSGD_CONF=$dir/absent: No such file" -j 100
DSGD_CONF=
fails 2 "no RecordDir" -j 100 # as not set at all
: >"$dir/dsgd.conf"
DSGD_CONF=$dir/dsgd.conf
fails 2 "no RecordDir" -j 100
cp "$records/alice/100.0.0.dsgd" "$dir/cwd/900.1.0.dsgd"
prints 100.0 -n -P -o JobID -j 900.1
export DSGD_RECORD_DIR="$records"
prints '' -n -P -o JobID -u bob -j 900.1
prints '' -n -P -o JobID -u bob -j 100 --record-dir "$records/alice"
prints '' -n -P -o JobID -j 900.1 --record-dir "$records/alice"
rm "$dir/cwd/900.1.0.dsgd"

fails 2 'there is no field "Foo"' -o JobID,Foo -j 100
fails 2 '"Cut%x": the width' -o Cut%x -j 100
fails 2 '"Cut%0": the width' -o Cut%0 -j 100
fails 2 'names no field' -o , -j 100
fails 2 '"tree" is none of step|node|worker|all' --by=tree -j 100
fails 2 '"tomorrow-ish" is not a time' -S tomorrow-ish
fails 2 '--delimiter: is empty' --delimiter= -j 100
fails 5 "/nowhere: No such file" --record-dir /nowhere -j 100
fails 5 "absent.dsgd: No such file" absent.dsgd
fails 5 "absent.dsgd: No such file" "$records/alice/100.0.0.dsgd" absent.dsgd
[ ! -s "$dir/out" ]
ok $? "and nothing is printed before"
fails 2 '--json takes no value' --json=3
fails 2 '--nox: no such option' --nox
fails 2 '--j: no such option, or short for several' --al --j
fails 2 '-Z: no such option' -j 100 -nZP
fails 2 '-j: the value is missing' -j
head -c 5000 "$records/alice/100.0.0.dsgd" >"$dir/cut.dsgd"
fails 6 "cut.dsgd: damaged record: " "$dir/cut.dsgd"
echo garbage >"$dir/garbage.dsgd"
fails 6 "garbage.dsgd: not a slurm-dsgd record" "$dir/garbage.dsgd"
fails 6 "garbage.dsgd: not a" "$dir/garbage.dsgd" "$records/alice/100.0.0.dsgd"
grep -q '^100.0 ' "$dir/out"
ok $? "the record after a bad one is reported"
"$report" --json "$dir/garbage.dsgd" "$records/alice/100.0.0.dsgd" \
    2>/dev/null | python3 -c 'import json, sys
report = json.load(sys.stdin)
assert [j["JobID"] for j in report["jobs"]] == ["100.0"]'
ok $? "and the JSON is whole"
"$report" --no-such-option >"$dir/out" 2>&1
[ $? -eq 2 ]
ok $? "an unknown option"

if [ "$(id -u)" -eq 0 ]; then
    chmod 755 "$dir" "$records" "$records/alice"
    chown 12345 "$records/alice/100.0.0.dsgd"
    chown 12346 "$records/alice/101.0.0.dsgd"
    prints "$(lines 100.0 101.0 102.0)" -n -P -o JobID -j 100,101,102
    "$report" --json -j 100,101,102 | python3 -c 'import json, sys
assert len(json.load(sys.stdin)["jobs"]) == 3'
    ok $? "root reads each user's record as that user"
    chmod 700 "$records"
    fails 5 "Permission denied" -j 100 --json
    chown 0 "$records/alice/100.0.0.dsgd" "$records/alice/101.0.0.dsgd"
else
    ok 0 "root reads a user's record # SKIP this is not root"
fi

"$report" --help | sed -n 's/^ *\(-[A-Za-z], \)\{0,1\}--\([a-z0-9-]*\).*/\2/p' |
    sort >"$dir/help"
sed -n 's/^\.It .*Fl -\([a-z0-9-]*\).*/\1/p' "$srcdir/doc/dsgd-report.1" |
    sort >"$dir/page"
[ -s "$dir/help" ] && diff "$dir/help" "$dir/page" | sed 's/^/# /' |
    { ! grep .; }
ok $? "--help and the man page have the same options"
"$report" -e | sed -n '/^Fields/!p' | tr -s ' ' '\n' | sort -u | grep . \
    >"$dir/help"
sed -n 's/^\.It Li \([A-Z][A-Za-z0-9]*\)$/\1/p' "$srcdir/doc/dsgd-report.1" |
    sort -u >"$dir/page"
diff "$dir/help" "$dir/page" | sed 's/^/# /' | { ! grep .; }
ok $? "--helpformat and the man page have the same fields"

# Every table and column of a record is in dsgd-formats(5), and nothing else.
python3 - "$records/alice/101.0.0.dsgd" "$srcdir/doc/dsgd-formats.5" <<'PYTHON'
import re, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
tables = {t: [(c[1], c[2]) for c in db.execute(f"PRAGMA table_info({t})")]
          for t, in db.execute("SELECT name FROM sqlite_master"
                               " WHERE type = 'table'")}
page = {}
for line in open(sys.argv[2]):
    if m := re.match(r"\.Ss (\w+)", line):
        columns = page.setdefault(m[1], [])
    elif m := re.match(r"\.It (\w+) Ta (\w+) Ta", line):
        columns.append((m[1], m[2]))
sys.exit(page != tables)
PYTHON
ok $? "the record's schema is that of the man page"

echo "1..$n"
