//! Shell completion with the scripts of `warploom completions`: it offers names of a real cluster.
//! Without a cluster it offers nothing, quickly and silently.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use test_cluster::TempDir;

use crate::loaded::{LoadedCluster, plan};
use crate::run::{text, warploom};

const BINARY: &str = env!("CARGO_BIN_EXE_warploom");
/// Maximum delay of a shell by a cluster that does not answer.
const SOON: Duration = Duration::from_secs(1);

/// Completes the words in bash, calling the script as bash does.
const BASH: &str = r#"
source <(warploom completions bash)
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
typed=${COMP_WORDS[COMP_CWORD]}
[[ $typed == "=" ]] && typed=
_complete_warploom warploom "$typed" "${COMP_WORDS[COMP_CWORD - 1]}"
[[ ${#COMPREPLY[@]} -eq 0 ]] || printf '%s\n' "${COMPREPLY[@]}"
"#;
/// Completes in zsh, with the display of candidates replaced by printing them.
const ZSH: &str = r#"
compdef() { }
_describe() { local name=${@[-1]}; [[ ${(t)${(P)name}} ]]; print -rl -- ${(P)name}; }
source <(warploom completions zsh)
words=("$@")
CURRENT=$#
_clap_dynamic_completer_warploom
"#;
/// Completes a given line in fish.
const FISH: &str = "warploom completions fish | source; complete -C (string join ' ' -- $argv)";

/// Runs a command in a shell that has `warploom` on its path.
fn shell(of: &mut Command, program: &str, script: &str, words: &[&str]) -> Output {
    let variables: Vec<_> = of
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.map(OsStr::to_owned)))
        .collect();
    let mut command = Command::new(program);
    match program {
        "bash" => command.args(["--norc", "--noprofile", "-c", script, "bash"]),
        "zsh" => command.args(["-f", "-c", script, "zsh"]),
        _ => command.args(["--no-config", "-c", script, "--"]),
    };
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let binaries = Path::new(BINARY).parent().expect("a folder");
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(binaries.to_owned()).chain(std::env::split_paths(&others));
    command
        .args(words)
        .env("PATH", std::env::join_paths(all).expect("a path"))
        .current_dir(of.get_current_dir().expect("a folder"))
        .output()
        .expect("the shell runs")
}

/// The candidates that a shell offers, one a line.
#[track_caller]
fn offered(of: &mut Command, program: &str, words: &[&str]) -> Vec<String> {
    let script = match program {
        "bash" => BASH,
        "zsh" => ZSH,
        _ => FISH,
    };
    let output = shell(of, program, script, words);
    let (out, err) = text(&output);
    assert_eq!(err, "", "{program} {words:?}: {out}");
    out.lines().map(str::to_owned).collect()
}

/// The installed shells.
fn shells() -> Vec<&'static str> {
    let is_here = |shell: &&str| Command::new(shell).arg("--version").output().is_ok();
    ["bash", "zsh", "fish"]
        .into_iter()
        .filter(is_here)
        .collect()
}

/// An administrator's command for a cluster.
fn of(loaded: &LoadedCluster) -> Command {
    let cluster = &loaded.demo.cluster;
    let mut command = warploom(&cluster.options().state_dir);
    command
        .env("WARPLOOM_BROKER_CREDENTIALS", cluster.credentials())
        .env("WARPLOOM_CLUSTER_NAME", &cluster.options().cluster);
    command
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "steps that share state")]
async fn a_clusters_names_are_offered_in_the_shells_that_are_here() {
    let plans = [plan("chat", "search", 1), plan("train", "search", 2)];
    let loaded = LoadedCluster::idle(1, 1, &plans, &[]).await;
    let (_client, _, opened) = loaded.join("chat").await;
    let (session, worker) = (opened.session.to_string(), opened.incarnation.to_string());
    for program in shells() {
        let asked = |words: &[&str]| {
            let words = [&["warploom"], words].concat();
            let offered = offered(&mut of(&loaded), program, &words);
            // The text after a name describes it.
            let names = offered.iter().map(|line| match program {
                "zsh" => line.split(':').next().unwrap_or_default().to_owned(),
                _ => line.split('\t').next().unwrap_or_default().to_owned(),
            });
            let names: Vec<_> = names.collect();
            (names, offered.concat())
        };
        assert_eq!(asked(&["tenant", "suspend", "ch"]).0, ["chat"], "{program}");
        assert_eq!(
            asked(&["session", "list", "--tenant", "t"]).0,
            ["train"],
            "{program}"
        );
        assert_eq!(
            asked(&["session", "end", &session[..9]]).0,
            [&*session],
            "{program}"
        );
        assert_eq!(asked(&["session", "end", "ff"]).0, [""; 0], "{program}");
        assert_eq!(
            asked(&["worker", "drain", &worker[..3]]).0,
            [&*worker],
            "{program}"
        );
        assert_eq!(
            asked(&["session", "list", "--gpu", ""]).0,
            ["0"],
            "{program}"
        );
        assert_eq!(
            asked(&["tenant", "set", "chat", "--group", ""]).0,
            ["default"],
            "{program}"
        );
        assert_eq!(
            asked(&["--set", "worker.eng"]).0,
            ["worker.engine="],
            "{program}"
        );
        assert_eq!(asked(&["sess"]).0, ["session"], "{program}");
        // Options do not get in the way of names, and are offered after a dash.
        let (names, _) = asked(&["tenant", "remove", ""]);
        assert_eq!(names, ["chat", "train"], "{program}");
        assert_eq!(
            asked(&["tenant", "remove", "--f"]).0,
            ["--force"],
            "{program}"
        );
        if program != "bash" {
            let (_, said) = asked(&["session", "end", &session]);
            assert!(
                said.contains("chat, gpu 0, waits for: program"),
                "{program}: {said}"
            );
        }
        // The line's own settings decide on the cluster.
        let nowhere = [
            "--set",
            "broker.credentials=nowhere",
            "tenant",
            "suspend",
            "ch",
        ];
        assert_eq!(asked(&nowhere).0, [""; 0], "{program}");
    }
    let asked = |words: &[&str]| offered(&mut of(&loaded), "bash", words);
    let ptx = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/saxpy.ptx");
    let ptx = ptx.to_str().expect("text");
    assert_eq!(asked(&["warploom", "submit", ptx, "s"]), ["saxpy"]);
    let list = ["warploom", "session", "list", "--tenant", "="];
    assert_eq!(asked(&list), ["chat", "train"], "bash splits words");
    assert_eq!(asked(&[&list[..], &["t"]].concat()), ["train"]);
    let set = ["warploom", "--set", "worker.engine", "=", "n"];
    assert_eq!(asked(&set), ["native"]);
    // A configuration file on the line.
    let dir = TempDir::new().expect("a folder");
    let credentials = loaded.demo.cluster.credentials();
    let file = dir.path().join("here.toml");
    let said = format!("[broker]\ncredentials = {credentials:?}\n");
    std::fs::write(&file, said).expect("it is written");
    let file = file.to_str().expect("text");
    let mut elsewhere = warploom(dir.path());
    let words = ["warploom", "--config", file, "tenant", "suspend", "ch"];
    assert_eq!(offered(&mut elsewhere, "bash", &words), ["chat"]);
    assert_eq!(
        offered(
            &mut elsewhere,
            "bash",
            &["warploom", "tenant", "suspend", "ch"]
        ),
        [""; 0]
    );
    // A tenant's own credentials name that tenant, and give access to nothing else.
    let mut own = of(&loaded);
    let broker = loaded.demo.cluster.broker.credentials();
    let login = broker.for_tenant("train").expect("a login");
    let path = dir.path().join("own.toml");
    login.save(&path).expect("it is written");
    own.env("WARPLOOM_BROKER_CREDENTIALS", &path);
    assert_eq!(
        offered(&mut own, "bash", &["warploom", "run", "--tenant", ""]),
        ["train"]
    );
    assert_eq!(
        offered(&mut own, "bash", &["warploom", "session", "end", "0"]),
        [""; 0]
    );
}

/// This program's answer to a shell, and the time that it took.
fn answer(command: &mut Command, words: &[&str]) -> (Output, Duration) {
    let begun = Instant::now();
    let command = command
        .env("WARPLOOM_COMPLETE", "fish")
        .args(["--", "warploom"]);
    let output = command.args(words).output().expect("it runs");
    (output, begun.elapsed())
}

#[test]
fn without_a_cluster_nothing_is_offered_soon_and_in_silence() {
    let dir = TempDir::new().expect("a folder");
    // It accepts connections, and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("nats://{}", silent.local_addr().expect("an address"));
    let settings: [&[(&str, &str)]; 6] = [
        &[],
        &[("WARPLOOM_BROKER_URL", "nats://127.0.0.1:1")],
        &[("WARPLOOM_BROKER_URL", &silent)],
        // Not routed anywhere.
        &[("WARPLOOM_BROKER_URL", "nats://192.0.2.1:4222")],
        &[("WARPLOOM_BROKER_CREDENTIALS", "nowhere.toml")],
        &[("WARPLOOM_CONFIG", "nowhere.toml")],
    ];
    for settings in settings {
        for words in [
            &["tenant", "suspend", "c"][..],
            &["session", "end", "0"],
            &["worker", "drain", "1"],
            &["session", "list", "--gpu", ""],
            &["session", "show", ""],
            &["profile", "pin", "1"],
            &["weights", "remove", "l"],
            &["controller", "token", "revoke", "0"],
        ] {
            let ask = || {
                let mut command = warploom(dir.path());
                answer(command.envs(settings.iter().copied()), words)
            };
            // A busy machine may be late twice.
            let mut tries = 0;
            loop {
                let (output, took) = ask();
                assert_eq!(text(&output), Default::default(), "{settings:?} {words:?}");
                assert_eq!(output.status.code(), Some(0), "{settings:?} {words:?}");
                tries += 1;
                if took < SOON {
                    break;
                }
                assert!(tries < 3, "{settings:?} {words:?}: {took:?}");
            }
        }
    }
    for program in shells() {
        let words = ["warploom", "session", "end", "0"];
        let mut command = warploom(dir.path());
        command.env("WARPLOOM_BROKER_URL", &silent);
        assert_eq!(offered(&mut command, program, &words), [""; 0], "{program}");
        // Completion without a cluster's names works as usual.
        let words = ["warploom", "--set", "worker.wat"];
        assert_eq!(offered(&mut command, program, &words).len(), 1, "{program}");
    }
}

#[test]
fn a_script_is_printed_wherever_one_is_and_only_a_shell_that_there_is_asks() {
    let dir = TempDir::new().expect("a folder");
    std::fs::write(dir.path().join("warploom.toml"), "nonsense").expect("it is written");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = warploom(dir.path()).args(["completions", shell]).output();
        let (out, err) = text(&output.expect("it runs"));
        assert!(
            out.contains("WARPLOOM_COMPLETE") && err.is_empty(),
            "{out}{err}"
        );
        // Called by its path, the script calls it by that path.
        assert!(out.contains(BINARY), "{out}");
    }
    let output = warploom(dir.path()).args(["completions", "tcsh"]).output();
    assert_eq!(output.expect("it runs").status.code(), Some(2));
    let asked = |shell: &str, words: &[&str]| {
        let mut command = warploom(dir.path());
        let output = command.env("WARPLOOM_COMPLETE", shell).args(words).output();
        text(&output.expect("it runs")).0
    };
    for other in ["", "0", "tcsh", "1"] {
        assert!(
            asked(other, &["--version"]).starts_with("warploom "),
            "{other}"
        );
    }
    assert!(asked("/bin/bash", &["--", "warploom", "sess"]).starts_with("session"));
}

#[test]
fn pages_are_written_and_the_main_one_printed() {
    let dir = TempDir::new().expect("a folder");
    let run = |arguments: &[&str]| {
        let output = warploom(dir.path()).args(arguments).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{:?}", text(&output));
        text(&output).0
    };
    assert!(run(&["man"]).contains(".TH warploom 1 \"\" \"warploom "));
    assert!(run(&["man", "share/man1"]).ends_with(" pages: share/man1\n"));
    let page = dir.path().join("share/man1/warploom-session-end.1");
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(
        page.contains("warploom session end 0000000700000003"),
        "{page}"
    );
    let told: serde_json::Value =
        serde_json::from_str(&run(&["man", "again", "--json"])).expect("JSON");
    let written = std::fs::read_dir(dir.path().join("again")).expect("a folder");
    assert_eq!(told["pages"], written.count());
    // Files are in the way.
    let output = warploom(dir.path())
        .args(["man", "again/warploom.1"])
        .output();
    assert_eq!(output.expect("it runs").status.code(), Some(1));
}
