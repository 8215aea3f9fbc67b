//! What holds of every command: the table has one line for each page of the manual.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use test_cluster::TempDir;

/// Command lines that find nobody, or end before they would look: one at least for each command.
const LINES: &[&str] = &[
    "up --leaders=0",
    "leader",
    "worker",
    "worker list",
    "worker drain 0",
    "submit kernel.ptx saxpy",
    "run -- true",
    "env",
    "smi",
    "smi pmon -c 1",
    "smi --program",
    "tenant create a",
    "tenant set a --priority 1",
    "tenant list",
    "tenant suspend a",
    "tenant resume a",
    "tenant remove a",
    "tenant renew a",
    "session list",
    "session show 0000000000000001",
    "session end 0000000000000001",
    "cluster show",
    "cluster set quantum=1ms",
    "profile list",
    "profile show 0000000000000001",
    "profile pin 0000000000000001",
    "profile unpin",
    "usage",
    "weights add a weights.safetensors",
    "weights list",
    "weights remove a",
    "status",
    "why",
    "replay",
    "order show",
    "order export --out order.csv",
    "order verify",
    "order diff one.csv other.csv",
    "order timeline --out order.svg",
    "order hold",
    "order release",
    "config",
    "controller",
    "controller link",
    "controller openapi",
    "controller token create ci",
    "controller token list",
    "controller token revoke ci",
    "top",
    "completions bash",
    "man",
    "bench nothing",
    "demo --leaders=0",
    "chaos --seconds=0",
    "conform --only nothing",
    "sim workloads",
    "sim compare --pairs nothing",
    "sim faults --seeds nothing",
];

/// A folder with a kernel, and the binary run in it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let dir = TempDir::new().expect("a directory");
        let kernel = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels/saxpy.ptx");
        std::fs::copy(kernel, dir.path().join("kernel.ptx")).expect("a kernel");
        Self(dir)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_warploom"))
            .args(arguments)
            .current_dir(self.0.path())
            .env("WARPLOOM_CLUSTER_STATE_DIR", self.0.path())
            .env("WARPLOOM_ROLE_DEADLINE", "500ms")
            .env("WARPLOOM_CLIENT_DEADLINE", "500ms")
            .env("WARPLOOM_CLIENT_OPENING", "200ms")
            .env("WARPLOOM_COMMAND_DEADLINE", "500ms")
            .output()
            .expect("the binary runs")
    }
}

fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn the_table_has_every_command() {
    let place = Place::new();
    let pages = place.0.path().join("man");
    let written = place.run(&["man", "man"]);
    assert!(written.status.success(), "{}", said(&written));
    let names = std::fs::read_dir(pages).expect("pages").flatten();
    let names = names.map(|page| page.file_name().to_string_lossy().replace(".1", ""));
    let names: BTreeSet<String> = names.collect();
    let group = |name: &String| names.iter().any(|it| it.starts_with(&format!("{name}-")));
    let lines = LINES
        .iter()
        .map(|line| format!("warploom-{}", line.replace(' ', "-")));
    let lines: Vec<String> = lines.collect();
    for name in names.iter().filter(|name| !group(name)) {
        let at = |line: &String| line == name || line.starts_with(&format!("{name}-"));
        assert!(lines.iter().any(at), "{name} is in no line");
    }
}

#[test]
fn a_login_in_the_brokers_url_is_never_printed() {
    let place = Place::new();
    for url in ["nats://u:hunter2@127.0.0.1:1", "nats://u:hunter2@no host:x"] {
        let setting = format!("broker.url={url}");
        for line in LINES {
            // Behind `--` stands a program's own.
            let words = ["--json", "--set", &setting, "--set", "log.filter=trace"];
            let words: Vec<_> = words.into_iter().chain(line.split(' ')).collect();
            let said = said(&place.run(&words));
            assert!(!said.contains("hunter2"), "{line}: {said}");
            let said = self::said(&place.run(&words[1..]));
            assert!(!said.contains("hunter2"), "{line}: {said}");
        }
    }
    // Nor where the command line itself is wrong.
    for words in [
        &["status", "--set", "nats://u:hunter2@h"][..],
        &["nats://u:hunter2@h"],
        &["status", "--set", "telemetry.otlp=http://u:hunter2@h"],
        &["config", "--set", "telemetry.otlp=http://u:hunter2@h"],
        &["config", "--set", "worker.gpu=nats://u:hunter2@h"],
    ] {
        let said = said(&place.run(words));
        assert!(!said.contains("hunter2"), "{words:?}: {said}");
    }
    std::fs::write(
        place.0.path().join("warploom.toml"),
        "[broker]\nurl = \"nats://u:hunter2@h\n",
    )
    .expect("written");
    let said = said(&place.run(&["config"]));
    assert!(
        said.contains("E-CONFIG-FILE") && !said.contains("hunter2"),
        "{said}"
    );
}
