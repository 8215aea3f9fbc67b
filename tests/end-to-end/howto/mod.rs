//! The commands in docs/howto, run as they are printed, page by page and in order.
//!
//! A page's test names each of its commands by its beginning, and the page may have no other.
//! Values that only the reader knows (a session's id, a port, a folder) replace those on the page.

mod page;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::Value;

use crate::children::until;
use crate::run::text;
use page::{PAGES, PROGRAM, Page, commands};

#[test]
fn every_page_with_commands_has_a_test_here() {
    let pages = fs::read_dir(PAGES).expect("pages").flatten();
    let names = pages.map(|page| page.file_name().to_string_lossy().into_owned());
    let names = names.filter(|name| name.ends_with(".md") && !commands(name).is_empty());
    let tests = include_str!("mod.rs");
    let left: Vec<String> = names
        .filter(|name| !tests.contains(&format!("Page::open({name:?})")))
        .collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn a_command_goes_on_behind_a_backslash_and_what_it_prints_is_none() {
    let all = commands("control-room.md");
    let patch = all.iter().find(|it| it.contains("PATCH"));
    assert!(patch.expect("one").ends_with("dry_run=true'"));
    assert!(all.iter().all(|it| !it.starts_with("control room")));
}

#[test]
fn tenants() {
    let mut page = Page::open("tenants.md");
    let _up = page.cluster("other");
    page.runs("warploom tenant create chat");
    page.runs("warploom tenant create train");
    let set = page.runs("warploom tenant set train");
    assert!(set.contains("priority 4, weight 2"), "{set}");
    assert!(page.runs("warploom tenant list").contains("train"));
    let (mut program, id) = page.program("train", "never");
    page.means("0000000700000003", &id);
    assert!(page.runs("warploom session list").contains(&id));
    assert!(page.runs("warploom session show").contains(&id));
    let ended = page.runs("warploom session end");
    assert!(
        ended.contains(&format!("session {id} has ended")),
        "{ended}"
    );
    drop(program);
    let suspended = page.runs("warploom tenant suspend train");
    assert!(
        suspended.contains("tenant train is suspended"),
        "{suspended}"
    );
    assert!(
        page.runs("warploom tenant resume train")
            .contains("tenant train goes on")
    );
    page.runs("warploom tenant renew chat");
    (program, _) = page.program("train", "never");
    let busy = page.ends("warploom tenant remove train", 1);
    assert!(busy.contains("E-TENANT-BUSY"), "{busy}");
    page.runs("warploom tenant remove train --force");
    drop(program);
    page.ended();
}

#[test]
fn targets() {
    let mut page = Page::open("slo.md");
    let _up = page.cluster("chat");
    let set = page.runs("warploom tenant set chat --priority 0 --slo 20ms");
    assert!(set.contains("not known yet whether it can be met"), "{set}");
    page.runs("warploom tenant set chat --slo none");
    page.runs("warploom tenant set chat --slo 5ms");
    page.ended();
}

#[test]
fn workers() {
    let mut page = Page::open("workers.md");
    let _up = page.cluster("chat");
    let programs = ["one", "two"].map(|_| page.program("chat", "end").0);
    let drained = page.runs("warploom worker drain 1");
    assert!(drained.contains("gets no new sessions"), "{drained}");
    page.runs("warploom worker drain 1 --undo");
    let mut waits = page.starts("warploom worker drain 1 --wait");
    waits.prints("gets no new sessions");
    fs::write(page.path().join("end"), "").expect("written");
    for mut program in programs {
        assert_eq!(program.ends(), Some(0), "{}", program.said());
    }
    assert_eq!(waits.command.ends(), Some(0), "{}", waits.command.said());
    page.ended();
}

#[test]
fn orders() {
    let mut page = Page::open("order.md");
    let _up = page.cluster("chat");
    // Positions of the reader's own record, and the reader's own folder.
    page.means("--from 1000 --to 1400", "--from 1 --to 4");
    page.means("1:4200", "1:1");
    page.means(
        "/var/lib/order",
        page.path().join("archive").display().to_string(),
    );
    let work = "warploom run --tenant chat --devices 2 -- python3 train.py";
    assert!(page.output(work).status.success());
    let export = "warploom order export --out yesterday.record";
    assert!(page.output(export).status.success());
    let shown = page.runs("warploom order show --tenant chat");
    assert!(shown.contains("chat"), "{shown}");
    let live = page.starts("warploom order show --live");
    live.prints_beside("chat", &page, work);
    live.interrupt();
    page.runs("warploom order export --out run.record");
    page.runs("warploom order export --out run.csv --gpu 1");
    assert!(page.path().join("run.csv").exists());
    page.runs("warploom order export --archive");
    page.runs("warploom order verify run.record");
    // It has more than yesterday's record.
    page.ends("warploom order diff yesterday.record run.record", 1);
    page.runs("warploom order timeline run.record");
    page.runs("warploom replay --record run.record --until");
    let cron = page.next("*/10 * * * * ");
    let again = page.output(&cron["*/10 * * * * ".len()..]);
    assert!(again.status.success(), "{}", text(&again).1);
    page.passes("cargo build --release", "it builds what is tested here");
    page.passes(
        "ops/scripts/demo-picture.py",
        "README's picture, made of a release build",
    );
    page.ended();
}

#[test]
fn waits() {
    let mut page = Page::open("why.md");
    let _up = page.cluster("chat");
    let (mut program, id) = page.program("chat", "end");
    page.means("0000000700000003@12", format!("{id}@2"));
    page.means("0000000700000003", &id);
    page.means("2/17", "1/2");
    page.means("2026-11-29T14:03", "1h");
    page.means("2026-11-29T14:04", "0s");
    page.runs("warploom why ");
    let of_session = page.runs("warploom why 0000000700000003");
    assert!(
        of_session.contains("now it waits for: program"),
        "{of_session}"
    );
    page.runs("warploom why 0000000700000003@12");
    page.runs("warploom why 2/17");
    page.runs("warploom why gpu:0");
    let of_tenant = page.runs("warploom why --tenant chat");
    assert!(of_tenant.starts_with("chat: "), "{of_tenant}");
    assert!(page.runs("warploom why --since 15m").contains("gpu 0 on"));
    assert!(page.runs("warploom why").contains("chat:"));
    // The minute in which something was changed.
    page.means("2026-11-30T20:01", "1h");
    page.means("2026-11-30T20:02", "0s");
    let of_tenant = page.runs("warploom why --tenant chat");
    assert!(of_tenant.starts_with("chat: "), "{of_tenant}");
    fs::write(page.path().join("end"), "").expect("written");
    assert_eq!(program.ends(), Some(0));
    page.ended();
}

#[test]
fn weights() {
    let mut page = Page::open("weights.md");
    let _up = page.cluster("chat");
    for file in ["model-00001", "model-00002"] {
        let header =
            format!(r#"{{"{file}":{{"dtype":"F32","shape":[131072],"data_offsets":[0,524288]}}}}"#);
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.extend((0..524_288_u32).map(|at| (at % 251) as u8));
        fs::write(page.path().join(format!("{file}.safetensors")), bytes).expect("written");
    }
    page.runs("warploom weights add llama");
    assert!(page.runs("warploom weights list").contains("llama"));
    page.ended();
}

#[test]
fn memory() {
    let mut page = Page::open("overcommit.md");
    let mut up = page.cluster("chat");
    let mut worker = page.starts("warploom worker --set worker.overcommit=150");
    until("a third worker", || {
        let listed = text(&page.output("warploom worker list --json")).0;
        listed.lines().count() >= 3
    });
    worker.command.signal(Signal::INT);
    assert_eq!(worker.command.ends(), Some(0), "{}", worker.command.said());
    up.signal(Signal::TERM);
    assert_eq!(up.ends(), Some(0), "{}", up.said());
    let small = page.starts("warploom up --set worker.capacity=64MiB");
    small.prints("is up");
    small.interrupt();
    page.ended();
}

#[test]
fn programs() {
    let mut page = Page::open("programs.md");
    page.runs("warploom run -- python train.py");
    let _up = page.cluster("chat");
    page.runs("warploom run --tenant research --priority 2");
    let listed = page.output("warploom tenant list");
    assert!(text(&listed).0.contains("research"));
    page.ended();
}

#[test]
fn programs_of_the_runtime() {
    let mut page = Page::open("cuda-runtime.md");
    let program = page.path().join("compiled_by_nvcc");
    fs::write(&program, format!("#!/usr/bin/env python3\n{PROGRAM}")).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    page.runs("warploom run --cuda-runtime -- ./compiled_by_nvcc");
    page.ended();
    let mut page = Page::open("pytorch.md");
    page.runs("warploom run --cuda-runtime -- python train.py");
    page.ended();
}

#[test]
fn metrics() {
    let mut page = Page::open("prometheus.md");
    let _up = page.cluster("chat");
    page.runs("warploom controller token create prometheus");
    let token = fs::read_to_string(page.path().join("prometheus.token")).expect("a token");
    assert!(token.starts_with("wl_"), "{} bytes", token.len());
    page.ended();
}

#[test]
fn shells() {
    let mut page = Page::open("shell.md");
    let home = page.path().join("home");
    // fish creates its folder itself.
    fs::create_dir_all(home.join(".config/fish/completions")).expect("a folder");
    fs::create_dir_all(home.join(".config/elvish")).expect("a folder");
    let set = format!("export HOME={0} PROFILE={0}/profile.ps1\n", home.display());
    let typed = |command: &str| {
        let output = page.output(&format!("{set}{command}"));
        assert!(output.status.success(), "{command}: {}", text(&output).1);
    };
    let mut all = commands("shell.md");
    for _ in 0..5 {
        typed(&all.pop_front().expect("a command"));
    }
    for file in [
        ".bashrc",
        ".zshrc",
        ".config/fish/completions/warploom.fish",
        "profile.ps1",
    ] {
        let written = fs::read_to_string(home.join(file)).expect("written");
        assert!(written.contains("warploom"), "{file}: {written}");
    }
    page.commands = all;
    page.passes(
        "warploom session end <Tab>",
        "completions.rs presses the key",
    );
    page.passes(
        "warploom --set worker.engine=<Tab>",
        "completions.rs presses the key",
    );
    page.passes(
        "warploom man | man -l -",
        "machines without man run this too",
    );
    let pages = page.next("warploom man ~/.local/share/man/man1");
    assert!(page.output(&format!("{set}{pages}")).status.success());
    assert!(
        home.join(".local/share/man/man1/warploom-tenant-create.1")
            .exists()
    );
    page.passes(
        "man warploom-tenant-create",
        "machines without man run this too",
    );
    page.ended();
}

#[test]
fn clusters_in_kubernetes() {
    let mut page = Page::open("kubernetes.md");
    for command in ["podman build", "helm install", "helm test"] {
        page.passes(command, "it needs what tests/kubernetes asks for");
    }
    page.ended();
}

#[test]
fn a_control_room() {
    let mut page = Page::open("control-room.md");
    let up = page.starts("warploom up");
    let room = "control room ";
    up.prints(room);
    let printed = up.printed();
    let (_, url) = printed.split_once(room).expect("a link");
    let address = url.trim_start_matches("http://").split('/').next();
    page.means("127.0.0.1:7070", address.expect("an address"));
    assert!(page.output("warploom tenant create chat").status.success());
    page.runs("warploom controller token create ci");
    page.runs("warploom controller token create chat-team");
    let listed = page.runs("warploom controller token list");
    assert!(listed.contains("chat-team"), "{listed}");
    let rows = text(&page.output("warploom controller token list --json")).0;
    let row: Value = serde_json::from_str(rows.lines().next().expect("a row")).expect("JSON");
    page.means("0123456789abcdef", row["id"].as_str().expect("an id"));
    page.runs("warploom controller token revoke");
    let made = page.output("warploom controller token create mine --role operator");
    page.means("$TOKEN", text(&made).0.trim());
    assert!(page.runs("curl").contains("\"chat\""));
    let patched = page.runs("curl");
    assert!(patched.contains(r#""key":"weight""#), "{patched}");
    let events = page.starts("curl -N");
    events.prints_beside("data:", &page, "warploom run -- python3 train.py");
    drop(events);
    let certificate = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=localhost";
    if page.output(certificate).status.success() {
        page.means("0.0.0.0:443", "127.0.0.1:0");
        let second = page.starts("warploom controller --set controller.listen=0.0.0.0:443");
        second.prints("https://");
        second.interrupt();
    } else {
        page.passes(
            "warploom controller",
            "machines without openssl run this too",
        );
    }
    up.interrupt();
    page.ended();
}
