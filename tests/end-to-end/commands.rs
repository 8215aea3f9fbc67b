//! The command line: exit codes, settings and their sources, and error messages.

use std::process::{Command, Output};

use test_cluster::TempDir;

fn warploom(dir: &TempDir, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warploom"))
        .args(arguments)
        .current_dir(dir.path())
        .env("WARPLOOM_CLUSTER_STATE_DIR", dir.path())
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn exit_codes_tell_what_kind_of_error_it_was() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("file"), "no folder").unwrap();
    for (arguments, code, says) in [
        (&["config"][..], 0, "worker.device"),
        (&["--help"], 0, "Examples"),
        (&["config", "--set", "no.such=1"], 2, "E-CONFIG-KEY"),
        (
            &["config", "--set", "worker.threads=abc"],
            2,
            "E-CONFIG-VALUE: worker.threads",
        ),
        (&["frobnicate"], 2, "frobnicate"),
        (&["status"], 3, "warploom up"),
        (
            &["status", "--set", "broker.url=nats://127.0.0.1:1"],
            3,
            "127.0.0.1:1",
        ),
        (&["order", "verify", "nowhere"], 2, "E-RECORD-FILE"),
        (&["order", "hold"], 3, "warploom up"),
        (&["replay", "--until", "x"], 2, "GPU:POSITION"),
        (&["demo", "--tenants", "nowhere.toml"], 2, "E-DEMO-TENANTS"),
        (&["demo", "--leaders=1"], 2, "E-USAGE: --kills 1 needs"),
        (&["demo", "--leaders=0", "--kills=0"], 2, "E-USAGE"),
        (&["demo", "--workers=0"], 2, "E-USAGE"),
        (&["demo", "--evidence", "file/x"], 1, "E-EVIDENCE-FILE"),
        (&["up", "--leaders=0"], 2, "E-USAGE: up.leaders"),
        // Every command that starts a cluster passes on its settings.
        (
            &["demo", "--set", "leader.metrics=127.0.0.1:1"],
            2,
            "leader.metrics is one port",
        ),
        // What the demo cannot obey it does not ignore.
        (
            &["demo", "--set", "up.workers=2"],
            2,
            "E-USAGE: the demo cannot obey up.workers: --workers",
        ),
        (
            &["demo", "--json", "--set=controller.listen=127.0.0.1:1"],
            2,
            "E-USAGE: the demo cannot obey controller.listen",
        ),
        (
            &["chaos", "--set", "worker.metrics=127.0.0.1:1"],
            2,
            "worker.metrics is one port",
        ),
    ] {
        let output = warploom(&dir, arguments);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert!(!said.contains(": :"), "{arguments:?}: {said}");
    }
}

#[test]
fn tables_fit_the_width_there_is() {
    let dir = TempDir::new().unwrap();
    let widest = |output: &Output| {
        let said = text(&output.stdout);
        said.lines()
            .map(|line| line.trim_end().chars().count())
            .max()
    };
    let plain = warploom(&dir, &["config"]);
    assert!(widest(&plain) <= Some(120), "{}", text(&plain.stdout));
    // A terminal of 80 columns.
    let script = "import os,pty,sys,fcntl,struct,termios\n\
        pid,fd=pty.fork()\n\
        if pid==0:\n\
        \x20sys.stdin.readline()\n\
        \x20os.execv(sys.argv[1],sys.argv[1:])\n\
        fcntl.ioctl(fd,termios.TIOCSWINSZ,struct.pack('HHHH',24,80,0,0))\n\
        os.write(fd,b'\\n')\n\
        out=b''\n\
        try:\n\
        \x20while True:\n\
        \x20\x20part=os.read(fd,4096)\n\
        \x20\x20if not part: break\n\
        \x20\x20out+=part\n\
        except OSError: pass\n\
        sys.stdout.buffer.write(out)\n";
    let output = Command::new("python3")
        .args(["-c", script, env!("CARGO_BIN_EXE_warploom"), "config"])
        .current_dir(dir.path())
        .env("WARPLOOM_CLUSTER_STATE_DIR", dir.path())
        .output()
        .expect("Python runs");
    let said = text(&output.stdout);
    assert!(said.contains("worker.watchdog"), "{said}");
    assert!(widest(&output) <= Some(80), "{said}");
}

#[test]
fn credentials_that_may_not_be_read_are_not_missing() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let dir = TempDir::new().unwrap();
    let broker = dir.path().join("state/broker");
    std::fs::create_dir_all(&broker).unwrap();
    std::fs::write(broker.join("credentials.toml"), "").unwrap();
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&broker, 0o000);
    let binary = dir.path().join("warploom");
    std::fs::copy(env!("CARGO_BIN_EXE_warploom"), &binary).unwrap();
    mode(dir.path(), 0o755);
    mode(&dir.path().join("state"), 0o755);
    let run = |name: &str| {
        let mut command = Command::new(&binary);
        command.arg(name).current_dir("/");
        command.env("WARPLOOM_CLUSTER_STATE_DIR", dir.path().join("state"));
        if rustix::process::getuid().is_root() {
            // Root may read everything.
            command.uid(65_534).gid(65_534);
        }
        let output = command.output().expect("the binary runs");
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let outputs = ["status", "usage", "up"].map(run);
    mode(&broker, 0o700);
    for (code, said) in &outputs {
        assert_eq!(*code, Some(1), "{said}");
        assert_eq!(said.matches("os error").count(), 1, "{said}");
        assert!(!said.contains("missing"), "{said}");
    }
    let [(_, said), ..] = outputs;
    assert!(
        said.contains("E-BROKER-CREDENTIALS") && said.contains("ermission"),
        "{said}"
    );
}

#[test]
fn config_says_where_each_setting_comes_from() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("warploom.toml"), "[worker]\nthreads = 2\n").unwrap();
    let output = warploom(&dir, &["config", "--json", "--set", "worker.gpu=3"]);
    let said = text(&output.stdout);
    assert!(
        said.contains(r#""key":"worker.threads","source":"file warploom.toml","value":"2""#),
        "{said}"
    );
    assert!(
        said.contains(r#""key":"worker.gpu","source":"flag","value":"3""#),
        "{said}"
    );
    assert!(
        said.contains("environment WARPLOOM_CLUSTER_STATE_DIR"),
        "{said}"
    );
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn flags_of_every_command_count_wherever_they_stand() {
    let dir = TempDir::new().unwrap();
    let settings = ["worker.gpu=3", "worker.threads=2", "worker.gpu=4"];
    let mut arguments = vec!["--set", settings[0], "config", "--set", settings[1]];
    let output = warploom(&dir, &[&["--json"], &arguments[..]].concat());
    let said = text(&output.stdout);
    for line in [
        r#""key":"worker.gpu","source":"flag","value":"3""#,
        r#""key":"worker.threads","source":"flag","value":"2""#,
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_eq!(text(&output.stderr), "");
    arguments.extend(["--json", "--set", settings[2]]);
    let output = warploom(&dir, &arguments);
    let said = text(&output.stdout);
    assert!(
        said.contains(r#""key":"worker.gpu","source":"flag","value":"4""#),
        "{said}"
    );
    let said = text(&output.stderr);
    assert_eq!(
        said,
        "--set worker.gpu is given more than once: the last counts\n"
    );
}

#[test]
fn an_administrators_command_says_whose_credentials_it_needs() {
    let dir = TempDir::new().unwrap();
    let broker = test_cluster::TestBroker::start();
    let path = dir.path().join("a.toml");
    let own = broker.credentials().for_tenant("a").expect("a login");
    own.save(&path).expect("written");
    let setting = format!("broker.credentials={}", path.display());
    let output = warploom(&dir, &["status", "--set", &setting]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("a tenant's"), "{said}");
}
