# shellcheck shell=bash
# Test Anything Protocol for shell tests: source this, end with tap_done.
# A test's name comes first, what it looks at after it.

tap_run=0
tap_failed=0

diag() { printf '%s\n' "$@" | sed 's/^/#   /'; }

tap_result() {
    tap_run=$((tap_run + 1))
    if [[ $1 == 0 ]]; then
        echo "ok $tap_run - $2"
        return 0
    fi
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_run - $2"
    return 1
}

# ok NAME CMD...: CMD succeeds.  Its output is shown when it does not.
ok() {
    local name=$1 out rc
    shift
    out=$("$@" 2>&1)
    rc=$?
    tap_result $rc "$name" || diag "\"$*\" returned $rc" "$out"
}

# is NAME GOT WANT
is() {
    [[ $2 == "$3" ]]
    tap_result $? "$1" || diag "got:" "$2" "want:" "$3"
}

# like NAME TEXT REGEX (extended)
like() {
    [[ $2 =~ $3 ]]
    tap_result $? "$1" || diag "got:" "$2" "want a match of:" "$3"
}

# at_least NAME NUMBER LIMIT, at_most NAME NUMBER LIMIT: decimal fractions;
# what is no number fails.
at_least() { tap_compare "$1" "$2" '>=' "$3"; }
at_most() { tap_compare "$1" "$2" '<=' "$3"; }
tap_compare() {
    [[ $2 =~ ^-?[0-9]+(\.[0-9]*)?$ ]] &&
        awk -v a="$2" -v b="$4" "BEGIN { exit !(a $3 b) }"
    tap_result $? "$1" || diag "got $2, want $3 $4"
}

skip_all() {
    echo "1..0 # SKIP $*"
    exit 0
}

tap_done() {
    echo "1..$tap_run"
    ((tap_failed == 0))
    exit
}
