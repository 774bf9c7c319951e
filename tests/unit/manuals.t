#!/bin/bash
# What can be set, and what the manuals say of it, are the same.
srcdir=${DSGD_SRCDIR:?}
builddir=${DSGD_BUILDDIR:?}
# shellcheck source=tests/tap.sh
. "$srcdir/tests/tap.sh"

# same NAME LIST LIST: not empty, and the same in any order.
same() {
    local one two
    one=$(sort -u <<<"$2")
    two=$(sort -u <<<"$3")
    [[ -n $one && $one == "$two" ]]
    tap_result $? "$1" || diag "only one of them has:" \
        "$(comm -3 <(echo "$one") <(echo "$two"))"
}
# items PAGE MACRO: words of that macro in the page's lists.
items() {
    sed -e :a -e '/\\$/{N;s/\\\n//;ba' -e '}' "$srcdir/doc/$1" |
        grep "^\.It $2 "
}

for program in dsgd-fit dsgd-replay dsgd-report dsgd-run dsgd-train; do
    same "$program: --help and the man page have the same options" \
        "$("$builddir/$program" --help |
            sed -nE 's/^ *(-[A-Za-z][^-]*)?--([a-z-]*).*/\2/p')" \
        "$(items $program.1 Fl | grep -o 'Fl -[a-z-]*' | sed 's/Fl -//')"
    for option in --help --version; do
        is "$program $option to a full disk" \
            "$("$builddir/$program" $option 2>&1 >/dev/full; echo $?)" \
            "$program: standard output: No space left on device
5"
    done
done
same "dsgd.conf(5) has all settings" \
    "$(sed -n 's/^    {"\([A-Z][A-Za-z]*\)", .*/\1/p' "$srcdir/runtime/options.c")" \
    "$(items dsgd.conf.5 Cm | grep -o '[A-Z][A-Za-z]*' | grep -vE '^(It|Cm)$')"
options=$(sed -n 's/.*"\(dsgd-[a-z-]*\)",$/\1/p' "$srcdir/plugin/options.c")
same "spank_dsgd(8) has all options" "$options" \
    "$(items spank_dsgd.8 Fl | grep -o 'dsgd-[a-z-]*')"
while read -r option; do
    name=DSGD_LAUNCH_$(tr a-z- A-Z_ <<<"${option#dsgd-}")
    ok "libdsgd reads --$option" grep -qw "$name" "$srcdir/runtime/options.c"
done <<<"$options"
while read -r name; do
    ok "a man page tells of $name" grep -qw "$name" "$srcdir"/doc/*.[1578]
done < <(sed -n 's/.*"\(DSGD_[A-Z_]*\)".*/\1/p' \
    "$srcdir/runtime/dsgd_names.h" | grep -v '^DSGD_LAUNCH_')
tap_done
