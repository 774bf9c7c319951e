#!/bin/sh
# seal.sh FILE: move the program headers of a shared object to its end.
#
# dlopen of a file that was cut short, by a full disk or a broken copy, maps
# what is no longer there and dies of SIGBUS, and slurmstepd with it: every job
# of that node fails.  Before it maps anything, dlopen reads the program
# headers.  When they are the last bytes of the file, a file that lacks its end
# (or has zeros there) is refused like any other that is no library.
# Other formats than 64-bit little-endian ELF are left alone.
set -e
file=$1

number() { # offset, bytes
    od -An -v -tu"$2" -j"$1" -N"$2" "$file" | tr -d ' '
}
bytes() { # little-endian, eight
    n=$1
    for _ in 1 2 3 4 5 6 7 8; do
        printf %b "\\0$(printf %03o $((n % 256)))"
        n=$((n / 256))
    done
}

case $(od -An -v -tx1 -N6 "$file" | tr -d ' ') in
7f454c460201) ;;
*) exit 0 ;;
esac
offset=$(number 32 8)
length=$(($(number 54 2) * $(number 56 2)))
size=$(stat -c %s "$file")
[ "$length" -gt 0 ] && [ $((offset + length)) -lt "$size" ] || exit 0

end=$(((size + 7) / 8 * 8))
dd if="$file" of="$file.ph" bs=1 skip="$offset" count="$length" status=none
truncate -s "$end" "$file"
cat "$file.ph" >>"$file"
rm -f "$file.ph"
bytes "$end" | dd of="$file" bs=1 seek=32 conv=notrunc status=none
