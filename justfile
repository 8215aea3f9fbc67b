# What is done every day. `just` alone lists it. Nothing needs just: the recipes of the first group call
# .ci/run, which CI calls as well, and each of the others is one command.

_list:
    @just --list --unsorted

# everything a change must pass: all steps, as CI runs them
[group('what CI runs')]
ci:
    .ci/run

# the sources are formatted
[group('what CI runs')]
format:
    .ci/run format

# every link of the pages leads somewhere
[group('what CI runs')]
links:
    .ci/run links

# clippy, warnings are errors; also for the binary without the laboratory
[group('what CI runs')]
lints:
    .ci/run lints

# cores know neither runtime, actors, bus nor CUDA; roles do not know one another
[group('what CI runs')]
layers:
    .ci/run layers

# the voice of comments and pages: no number rises
[group('what CI runs')]
prose:
    .ci/run prose

# no file of a crate or of a test imports one that imports it, and no name means two public types
[group('what CI runs')]
circles:
    .ci/run circles

# all tests of the workspace
[group('what CI runs')]
test:
    .ci/run tests

# the demo, a release build
[group('what CI runs')]
demo:
    .ci/run demo

# the GPU kit: packed, and rehearsed without a GPU
[group('what CI runs')]
gpu:
    .ci/run gpu

# all that needs no tests run: format, links, prose, layers, circles, and that everything compiles
[group('daily')]
check:
    .ci/run format links prose layers circles
    cargo check --workspace --all-targets --locked

# formats the sources
[group('daily')]
fmt:
    cargo fmt --all

# the tests of one crate: `just test-of gpu-worker-core`, `just test-of ptx comments`
[group('daily')]
test-of crate *filter:
    cargo test --locked --package {{crate}} {{filter}}

# the cluster with faults in virtual time: `just sim --seeds 10000`
[group('daily')]
sim *arguments='--seeds 1000':
    cargo run --release --locked -- sim faults {{arguments}}

# real processes killed and cut off: `just chaos --kills 100 --seconds 300`
[group('daily')]
chaos *arguments='--kills 10 --seconds 30':
    cargo run --release --locked -- chaos {{arguments}}

# every end-to-end test many times, half of them beside a build; names those that fail: `just shake --only why:: --times 10`
[group('daily')]
shake *arguments:
    .ci/shake.py {{arguments}}

# this tree's speed against the last release's, in turns, and what became slower; builds the release first, in minutes,
# once: `just speed --base 1082b2a --only wait`
[group('daily')]
speed *arguments:
    .ci/speed.py {{arguments}}

# clients and test suites of others: `just peers --suite numba`
[group('daily')]
peers *arguments='--fast':
    cargo build --release --locked
    tests/peers/run.py {{arguments}}

# the control room's page in a real browser, against a mock: pictures, axe, keyboard, speed; installs playwright
[group('daily')]
test-page *arguments:
    tests/page/run.py {{arguments}}

# roles of the last release and of this build in one cluster; builds the former first, in minutes, once
[group('daily')]
last-release:
    cargo test --locked --test end-to-end last_release -- --ignored

# three demos at once on a machine that is kept busy; half an hour, a minute of it in every test run
[group('daily')]
starved seconds='1800':
    WARPLOOM_SECONDS={{seconds}} cargo test --locked --test starved

# sessions take all memory in turns ten thousand times and look for what others left: on a device alone, then
# tenants of a cluster
[group('daily')]
wiped:
    cargo test --release --locked --package device-cpu --test wiped ten_thousand_times -- --ignored --nocapture
    cargo test --locked --test end-to-end ten_thousand_times -- --ignored

# mutated PTX through parser, decoder, linker and device
[group('daily')]
fuzz seconds='600':
    tests/fuzz/run.sh {{seconds}}

# metrics of a cluster at work, the dashboard's queries and the alerts, with a real Prometheus (Debian's package, in
# target/tools)
[group('daily')]
test-metrics *arguments:
    cargo build --locked
    tests/metrics/run.py {{arguments}}

# writes anew what tests generate: five pages, a dashboard, and the bytes of messages that have none yet. Look at the difference
[group('daily')]
bless:
    WARPLOOM_BLESS=1 cargo test --locked --package libcuda --lib
    WARPLOOM_BLESS=1 cargo test --locked --package device-cpu --test opcodes
    WARPLOOM_BLESS=1 cargo test --locked --package device-cpu --test corpus table
    WARPLOOM_BLESS=1 cargo test --locked --package telemetry --test generated
    WARPLOOM_BLESS=1 cargo test --locked --package controller --lib
    WARPLOOM_BLESS=1 cargo test --locked --package admin --lib codes
    WARPLOOM_BLESS=1 cargo test --locked --package bus-schemas --test golden
    .ci/prose.py --bless
    git status --short docs ops/grafana bus-schemas/tests/golden .ci
