#!/bin/sh
# Fuzzes the PTX path with libFuzzer: parse, decode, link, run.
#
#   tests/fuzz/run.sh [seconds]   default 3600; ASAN=1 adds AddressSanitizer
#
# The instrumentation is LLVM's own pass and needs no nightly compiler; only the sanitizer is an
# unstable option, which RUSTC_BOOTSTRAP unlocks on the pinned stable one. A crash is written to
# tests/fuzz/target/found; add it, made small, to tests/fuzz/regressions: a test replays that folder.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:-3600}
target=$(rustc -vV | sed -n 's/^host: //p')
flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3"
flags="$flags -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
flags="$flags -Cllvm-args=-sanitizer-coverage-pc-table -Ccodegen-units=1 --cfg fuzzing"
if [ "${ASAN:-0}" = 1 ]; then
    export RUSTC_BOOTSTRAP=1
    flags="$flags -Zsanitizer=address"
fi
RUSTFLAGS=$flags cargo build --release --locked --manifest-path "$here/Cargo.toml" --target "$target"
work=$here/target/corpus
found=$here/target/found
mkdir -p "$work" "$found"
# A launch that asks for much memory is refused by the engine, so the limits here are tight.
exec nice -n 19 "$here/target/$target/release/ptx" "$work" "$here/regressions" \
    "$here/../kernels" "$here/../corpus" -artifact_prefix="$found/" -max_total_time="$seconds" \
    -max_len=32768 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1
