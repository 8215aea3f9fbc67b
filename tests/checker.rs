//! The checker that shares no code with Warploom, `tests/checker/check.py`: it notices changed
//! evidence, with and without a new signature.

use std::path::{Path, PathBuf};

use admin::evidence::{
    Evidence, EvidenceKey, KILLED, SessionFailure, Started, Submitted, WorkerEnd,
};
use admin::record::PositionRow;
use bus_schemas::{Chain, ChainEntry, GpuTail, GrantKind};
use lab::chaos::Checker;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use test_cluster::TempDir;

const KINDS: [GrantKind; 6] = [
    GrantKind::Run,
    GrantKind::Open,
    GrantKind::Close,
    GrantKind::Standing,
    GrantKind::Revoke,
    GrantKind::Return,
];

/// Worker, session, tenant, kind, first, last, granted, outcome; positions are numbered in order.
type Line = (
    &'static str,
    &'static str,
    &'static str,
    GrantKind,
    (u64, u64, u64),
    &'static str,
);

/// `w1` was lost: its leader did not know of its last line.
fn lines() -> Vec<Line> {
    use GrantKind::{Close, Open, Revoke, Run, Standing};
    vec![
        ("w0", "s1", "a", Open, (0, 0, 0), "ran"),
        ("w0", "s1", "a", Run, (1, 3, 3), "ran"),
        ("w0", "s2", "b", Open, (0, 0, 0), "ran"),
        ("w0", "s1", "a", Run, (4, 6, 6), "void"),
        ("w0", "s1", "a", Run, (4, 6, 6), "ran"),
        ("w0", "s2", "b", Run, (1, 2, 4), "failed"),
        ("w0", "s2", "b", Run, (5, 6, 6), "gone"),
        ("w0", "s2", "b", Close, (0, 0, 0), "ran"),
        ("w0", "s1", "a", Standing, (7, 9, 9), "ran"),
        ("w0", "s1", "a", Revoke, (0, 0, 0), "ran"),
        ("w0", "s1", "a", Standing, (10, 9, 9), "ran"),
        ("w0", "s4", "d", Open, (0, 0, 0), "ran"),
        ("w0", "s1", "a", Close, (0, 0, 0), "ran"),
        ("w0", "s4", "d", Run, (1, 2, 2), "ran"),
        ("w0", "s4", "d", Close, (0, 0, 0), "ran"),
        ("w1", "s3", "c", Open, (0, 0, 0), "ran"),
        ("w1", "s3", "c", Run, (1, 2, 2), "ran"),
    ]
}

/// A worker's end: GPU, name, last position, and the chain there.
type End = (u32, &'static str, u64, Chain);

fn good() -> Evidence {
    let mut evidence = Evidence::default();
    for (session, tenant, first, last) in [
        ("s1", "a", 1, 4),
        ("s1", "a", 5, 9),
        ("s2", "b", 1, 6),
        ("s3", "c", 1, 5),
        ("s4", "d", 1, 3),
    ] {
        evidence.submitted.push(Submitted {
            session: session.into(),
            tenant: tenant.into(),
            ordinal: 1,
            first,
            last,
        });
    }
    for (session, tenant, code) in [("s3", "c", "E-DEVICE-LOST"), ("s4", "d", KILLED)] {
        evidence.failures.push(SessionFailure {
            session: session.into(),
            tenant: tenant.into(),
            ordinal: 1,
            code: code.into(),
        });
    }
    let mut ends = [
        (0, "w0", 0, Chain::default()),
        (1, "w1", 0, Chain::default()),
    ];
    for (global, line) in (1..).zip(lines()) {
        let end = ends.iter_mut().find(|end| end.1 == line.0);
        run(&mut evidence, end.expect("a worker"), global, line);
    }
    // It died while it opened a session; it had closed the session's standing grant before any op
    // came.
    let mut unopened = evidence.started.last().expect("a line").clone();
    unopened.position = 4;
    (unopened.session, unopened.tenant) = ("s5".into(), "e".into());
    unopened.kind = GrantKind::Standing.name().into();
    (unopened.first, unopened.last, unopened.granted) = (1, 0, 0);
    unopened.running = vec![3];
    evidence.started.push(unopened);
    ends[1].2 = 1;
    evidence.digest = bus_schemas::digest(&[GpuTail {
        gpu: ends[0].0,
        position: ends[0].2,
        chain: ends[0].3,
    }])
    .to_string();
    evidence.workers = ends.iter().map(worker_end).collect();
    evidence
}

/// Adds a position that is granted and ends on its worker.
fn run(evidence: &mut Evidence, end: &mut End, global: u64, line: Line) {
    let (worker, session, tenant, kind, (first, last, granted), outcome) = line;
    let (gpu, position) = (end.0, end.2 + 1);
    end.2 = position;
    // Its leader did not know of the lost worker's last position.
    if (worker, position) != ("w1", 2) {
        end.3 = end.3.then(&ChainEntry {
            position,
            tenant: &tenant.parse().expect("a name"),
            ordinal: 1,
            kind,
            first,
            last: granted,
        });
        evidence.order.push(PositionRow {
            gpu,
            incarnation: worker.into(),
            position,
            global,
            epoch: 1,
            tenant: tenant.into(),
            ordinal: 1,
            session: session.into(),
            kind: kind.name().into(),
            first,
            last: granted,
            ..PositionRow::default()
        });
    }
    evidence.started.push(Started {
        gpu,
        incarnation: worker.into(),
        position,
        session: session.into(),
        tenant: tenant.into(),
        ordinal: 1,
        kind: kind.name().into(),
        first,
        last,
        granted,
        outcome: outcome.into(),
        running: Vec::new(),
    });
}

fn worker_end((gpu, incarnation, position, chain): &End) -> WorkerEnd {
    WorkerEnd {
        gpu: *gpu,
        incarnation: (*incarnation).into(),
        position: *position,
        chain: chain.to_string(),
        lost: *incarnation == "w1",
        dead: false,
        fate: String::new(),
        with: admin::record::With::Record,
        through: *position,
        from: 0,
        from_chain: String::new(),
    }
}

/// Variants of the lines with each line deleted, doubled or swapped with the next, or one of its
/// fields changed.
fn damages<T: Serialize + DeserializeOwned + Clone>(
    lines: &[T],
    of: usize,
) -> Vec<(String, Vec<T>)> {
    let mut all = Vec::new();
    for index in 0..of {
        let mut deleted = lines.to_vec();
        deleted.remove(index);
        all.push((format!("line {index} deleted"), deleted));
        let mut doubled = lines.to_vec();
        doubled.insert(index, lines[index].clone());
        all.push((format!("line {index} doubled"), doubled));
        if index + 1 < of {
            let mut swapped = lines.to_vec();
            swapped.swap(index, index + 1);
            all.push((format!("line {index} swapped"), swapped));
        }
        let line = serde_json::to_value(&lines[index]).expect("a line");
        let empty = line["kind"] == "standing" && line["last"].as_u64() < line["first"].as_u64();
        // Only the worker knows the op at which a position failed, and the work of a session with a
        // killed program: that may have been less.
        let failed = line["outcome"] == "failed";
        let killed = line["session"] == "s4";
        for (key, value) in line.as_object().expect("an object") {
            if (key == "outcome" && (empty || killed)) || (key == "last" && failed) {
                continue;
            }
            for other in others(key, value) {
                let what = format!("line {index}: {key} is {other}");
                let mut changed = line.clone();
                changed[key] = other;
                let mut damaged = lines.to_vec();
                damaged[index] = serde_json::from_value(changed).expect("a line");
                all.push((what, damaged));
            }
        }
    }
    all
}

fn others(key: &str, value: &Value) -> Vec<Value> {
    match (key, value) {
        (_, Value::Number(number)) => {
            let number = number.as_u64().expect("a number");
            let mut others = vec![Value::from(number + 1)];
            others.extend(number.checked_sub(1).map(Value::from));
            others
        }
        ("kind", value) => {
            let others = KINDS.iter().map(|kind| Value::from(kind.name()));
            others.filter(|other| other != value).collect()
        }
        // At a position that is empty or where nothing runs, `void` and `gone` are equivalent.
        ("outcome", value) if value == "gone" => vec!["ran".into()],
        ("outcome", value) => {
            let others = ["ran", "void"].map(Value::from);
            others.into_iter().filter(|other| other != value).collect()
        }
        ("running", _) => vec![vec![u64::MAX].into()],
        (_, value) => vec![Value::from(format!("{}x", value.as_str().expect("text")))],
    }
}

/// All damages that are found even under an honest signature.
fn signed_damages() -> Vec<(String, Evidence)> {
    let mut all = Vec::new();
    // The lines of the first session: ops that others submitted but that did not run are not
    // missed.
    for (what, submitted) in damages(&good().submitted, 2) {
        let damaged = Evidence {
            submitted,
            ..good()
        };
        all.push((format!("submitted.jsonl, {what}"), damaged));
    }
    // The positions of the worker that was not lost.
    for (what, started) in damages(&good().started, 15) {
        let damaged = Evidence { started, ..good() };
        all.push((format!("started.jsonl, {what}"), damaged));
    }
    let mut more = |what: &str, change: &dyn Fn(&mut Evidence)| {
        let mut damaged = good();
        change(&mut damaged);
        all.push((what.into(), damaged));
    };
    more("nothing submitted", &|it| it.submitted.clear());
    more("nothing started", &|it| it.started.clear());
    more("nothing failed", &|it| it.failures.clear());
    more("another digest", &|it| it.digest = "0".repeat(64));
    more("another chain", &|it| it.workers[0].chain = "0".repeat(64));
    more("another chain of the lost one", &|it| {
        it.workers[1].chain = "0".repeat(64)
    });
    more("a worker less", &|it| drop(it.workers.pop()));
    more("a position less", &|it| it.workers[0].position -= 1);
    more("a standing grant of nobody's", &|it| {
        let last = it.started.last_mut().expect("a line");
        (last.position, last.running) = (3, Vec::new());
    });
    more("something ran where nothing was opened", &|it| {
        let last = it.started.last_mut().expect("a line");
        (last.last, last.granted) = (1, 1);
    });
    more("a failure for nothing", &|it| {
        it.failures[1].code = "E-SESSION-GONE".into()
    });
    more("a failure of another worker's", &|it| {
        it.workers[1].lost = false
    });
    all
}

/// Writes evidence with the record beside it, as a demo does.
fn write(evidence: &Evidence, dir: &Path, key: &EvidenceKey) {
    std::fs::create_dir_all(dir).expect("a directory");
    std::fs::write(dir.join("order.record"), b"of bytes\n").expect("written");
    evidence.write(dir, key).expect("written");
}

/// Damages to signed files: each file's new bytes, or `None` if the file is removed.
fn raw_damages(dir: &Path) -> Vec<(String, String, Option<Vec<u8>>)> {
    let mut all = vec![("a file too many".into(), "more".into(), Some(Vec::new()))];
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = std::fs::read(entry.path()).expect("a file");
        let mut longer = bytes.clone();
        longer.extend(b"{}\n");
        all.push((format!("{name}, longer"), name.clone(), Some(longer)));
        all.push((format!("{name}, gone"), name.clone(), None));
        if bytes.is_empty() {
            continue;
        }
        for at in [0, bytes.len() / 2, bytes.len() - 2] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            all.push((format!("{name}, byte {at}"), name.clone(), Some(changed)));
        }
        all.push((format!("{name}, empty"), name.clone(), Some(Vec::new())));
        let half = bytes[..bytes.len() / 2].to_vec();
        all.push((format!("{name}, cut"), name.clone(), Some(half)));
    }
    all
}

#[test]
fn evidence_that_was_changed_is_noticed_by_a_checker_that_trusts_nobody() {
    let checker = Checker::find().expect("python3 with pip, and a way to PyPI");
    let dir = TempDir::new().expect("a directory");
    let key = EvidenceKey::of(dir.path()).expect("a key");
    let place = |number: usize| -> PathBuf { dir.path().join(format!("evidence-{number}")) };
    let whole = place(0);
    write(&good(), &whole, &key);
    assert!(good().verify().is_clean(), "{:?}", good().verify());
    let check = |dirs: &[PathBuf], key: &str| {
        let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
        checker.check(&dirs, Some(key)).expect("it runs")
    };
    let found = check(std::slice::from_ref(&whole), &key.public()).remove(0);
    assert!(found.ok, "{found:?}");
    assert_eq!((found.submitted, found.ran), (23, 15));
    let other = EvidenceKey::of(&dir.path().join("other")).expect("a key");
    assert!(!check(std::slice::from_ref(&whole), &other.public())[0].ok);

    let (mut names, mut dirs) = (Vec::new(), Vec::new());
    for (what, evidence) in signed_damages() {
        let at = place(1 + dirs.len());
        write(&evidence, &at, &key);
        (names.push(what), dirs.push(at)).1
    }
    for (what, file, bytes) in raw_damages(&whole) {
        let at = place(1 + dirs.len());
        write(&good(), &at, &key);
        match bytes {
            Some(bytes) => std::fs::write(at.join(file), bytes).expect("written"),
            None => std::fs::remove_file(at.join(file)).expect("removed"),
        }
        (names.push(what), dirs.push(at)).1
    }
    assert!(dirs.len() > 300, "{}", dirs.len());
    let found = check(&dirs, &key.public());
    let missed = names.iter().zip(&found).filter(|(_, found)| found.ok);
    let missed: Vec<_> = missed.map(|(name, _)| name).collect();
    assert!(
        missed.is_empty(),
        "{} of {} missed: {missed:#?}",
        missed.len(),
        names.len()
    );
}
