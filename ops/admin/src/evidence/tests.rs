use super::*;
use crate::record::PositionRow;

fn submitted(session: &str, first: u64, last: u64) -> Submitted {
    let (session, tenant) = (session.to_owned(), "chat".to_owned());
    Submitted {
        session,
        tenant,
        ordinal: 1,
        first,
        last,
    }
}

/// Worker, session, position, kind, first op, last op, outcome.
type Position = (
    &'static str,
    &'static str,
    u64,
    &'static str,
    u64,
    u64,
    &'static str,
);

fn positions() -> Vec<Position> {
    vec![
        ("w0", "s", 1, "open", 0, 0, "ran"),
        ("w0", "s", 2, "run", 1, 3, "ran"),
        ("w0", "s", 3, "run", 4, 6, "void"),
        ("w0", "s", 4, "run", 4, 6, "ran"),
        ("w0", "s", 5, "run", 7, 7, "ran"),
        ("w0", "s", 6, "close", 0, 0, "ran"),
        ("w1", "t", 1, "open", 0, 0, "ran"),
        ("w1", "t", 2, "run", 1, 3, "ran"),
    ]
}

fn good() -> Evidence {
    let mut evidence = Evidence {
        submitted: vec![
            submitted("s", 1, 2),
            submitted("s", 3, 6),
            submitted("s", 7, 7),
            submitted("t", 1, 2),
            submitted("t", 3, 3),
        ],
        ..Evidence::default()
    };
    for (global, entry) in (1..).zip(positions()) {
        let (incarnation, session, position, kind, first, last, outcome) = entry;
        let (incarnation, kind) = (incarnation.to_owned(), kind.to_owned());
        let (session, tenant, outcome) =
            (session.to_owned(), "chat".to_owned(), outcome.to_owned());
        let later = u64::from(global > 3);
        evidence.order.push(PositionRow {
            gpu: 0,
            incarnation: incarnation.clone(),
            position,
            // The second epoch reassigns the last global position of the first.
            global: (global - later) * 2,
            epoch: 1 + later,
            tenant: tenant.clone(),
            ordinal: 1,
            session: session.clone(),
            kind: kind.clone(),
            first,
            last,
            ..PositionRow::default()
        });
        evidence.started.push(Started {
            gpu: 0,
            incarnation,
            position,
            session,
            tenant,
            ordinal: 1,
            kind,
            first,
            last,
            granted: last,
            outcome,
            running: Vec::new(),
        });
    }
    for kill in 1..=2 {
        evidence.kills.push(Kill {
            kill,
            of: 2,
            at_ms: 1,
            pid: 1,
            leader: "l".into(),
            epoch: kill as u64,
            takeover_ms: 9.5,
            successor: kill as u64 + 1,
        });
    }
    evidence
}

#[test]
fn what_agrees_is_clean() {
    let check = good().verify();
    assert!(check.is_clean(), "{check:?}");
    assert_eq!((check.submitted, check.ran, check.positions), (10, 10, 8));
}

/// All damages to a list that affect one line.
fn damages<T: Clone + PartialEq>(lines: &[T]) -> Vec<Vec<T>> {
    let mut all = Vec::new();
    for index in 0..lines.len() {
        let mut deleted = lines.to_vec();
        deleted.remove(index);
        all.push(deleted);
        let mut doubled = lines.to_vec();
        doubled.insert(index, lines[index].clone());
        all.push(doubled);
        for other in index + 1..lines.len() {
            let mut swapped = lines.to_vec();
            swapped.swap(index, other);
            all.push(swapped);
        }
    }
    all
}

#[test]
fn any_line_deleted_doubled_or_swapped_is_found() {
    let good = good();
    for submitted in damages(&good.submitted) {
        let bad = Evidence {
            submitted,
            ..good.clone()
        };
        assert!(!bad.verify().is_clean(), "{:?}", bad.submitted);
    }
    for started in damages(&good.started) {
        let bad = Evidence {
            started,
            ..good.clone()
        };
        assert!(!bad.verify().is_clean(), "{:?}", bad.started);
    }
    for order in damages(&good.order) {
        let bad = Evidence {
            order,
            ..good.clone()
        };
        assert!(!bad.verify().is_clean(), "{:?}", bad.order);
    }
    for kills in damages(&good.kills) {
        let bad = Evidence {
            kills,
            ..good.clone()
        };
        assert!(!bad.verify().is_clean(), "{:?}", bad.kills);
    }
}

#[test]
fn a_failed_session_stops_where_it_failed() {
    let mut evidence = good();
    // Session t fails at op 2 of 3.
    let last = evidence.started.last_mut().unwrap();
    (last.last, last.outcome) = (2, "failed".into());
    assert!(evidence.verify().is_clean(), "{:?}", evidence.verify());
    // Session s fails at op 2 of 3, but goes on.
    (evidence.started[1].last, evidence.started[1].outcome) = (2, "failed".into());
    assert!(!evidence.verify().is_clean());
}

#[test]
fn what_ran_was_submitted() {
    let mut evidence = good();
    evidence.submitted.clear();
    assert!(!evidence.verify().is_clean(), "nothing was submitted");
    let mut evidence = good();
    for line in &mut evidence.started {
        line.kind = line.kind.replace("run", "standing");
    }
    for line in &mut evidence.order {
        line.kind = line.kind.replace("run", "standing");
    }
    assert!(evidence.verify().is_clean(), "{:?}", evidence.verify());
    evidence.submitted.truncate(2);
    assert!(!evidence.verify().is_clean(), "under a standing grant");
}

#[test]
fn a_worker_that_was_lost_need_not_have_written_what_its_leader_knew() {
    let mut evidence = good();
    evidence.workers = ["w0", "w1"]
        .map(|incarnation| WorkerEnd {
            gpu: 0,
            incarnation: incarnation.into(),
            position: 2,
            chain: String::new(),
            lost: false,
            dead: false,
            fate: "here".into(),
            with: crate::record::With::Nothing,
            through: 0,
            from: 0,
            from_chain: String::new(),
        })
        .into();
    let failure = |code: &str| SessionFailure {
        session: "t".into(),
        tenant: "chat".into(),
        ordinal: 1,
        code: code.into(),
    };
    // Its last line is missing, and its session's program was told.
    evidence.started.pop();
    evidence.failures = vec![failure("E-DEVICE-LOST")];
    assert!(!evidence.verify().is_clean(), "it was not lost");
    evidence.workers[1].dead = true;
    assert!(evidence.verify().is_clean(), "{:?}", evidence.verify());
    (evidence.workers[1].lost, evidence.workers[1].dead) = (true, false);
    assert!(evidence.verify().is_clean(), "{:?}", evidence.verify());
    // It wrote more than its leader knew.
    let mut evidence = Evidence {
        workers: evidence.workers,
        ..good()
    };
    evidence.order.pop();
    assert!(evidence.verify().is_clean(), "{:?}", evidence.verify());
    evidence.started.remove(0);
    assert!(!evidence.verify().is_clean(), "the other was not lost");
}

#[test]
fn a_session_does_not_fail_of_itself() {
    let mut evidence = good();
    evidence.failures.push(SessionFailure {
        session: "s".into(),
        tenant: "chat".into(),
        ordinal: 1,
        code: "E-SESSION-GONE".into(),
    });
    assert_eq!(evidence.verify().failed, 1);
    evidence.failures[0].code = KILLED.into();
    assert!(evidence.verify().is_clean(), "{:?}", evidence.verify());
}

fn written() -> (test_cluster::TempDir, EvidenceKey) {
    let dir = test_cluster::TempDir::new().unwrap();
    let key = EvidenceKey::of(dir.path()).unwrap();
    good().write(&dir.path().join("evidence"), &key).unwrap();
    (dir, key)
}

#[test]
fn files_survive() {
    let (dir, key) = written();
    let dir = dir.path().join("evidence");
    let (evidence, signature) = Evidence::read(&dir, None).unwrap();
    assert_eq!((evidence, &signature.key), (good(), &key.public()));
    assert!(signature.unsigned.is_empty());
    Evidence::read(&dir, Some(&key.public())).unwrap();
}

#[test]
fn files_rewritten_consistently_are_noticed() {
    let refused = |dir: &Path, key: Option<&str>| {
        let error = Evidence::read(dir, key).unwrap_err();
        assert!(
            format!("{error:#}").contains("E-EVIDENCE-MANIFEST"),
            "{error:#}"
        );
    };
    let (state, key) = written();
    let dir = state.path().join("evidence");
    // One op less in all files: they agree with one another.
    let mut other = good();
    other.submitted.pop();
    let end = other.started.last_mut().unwrap();
    (end.last, end.granted) = (2, 2);
    other.order.last_mut().unwrap().last = 2;
    assert!(other.verify().is_clean(), "{:?}", other.verify());
    let (stranger, theirs) = written();
    let forged = stranger.path().join("evidence");
    other.write(&forged, &theirs).unwrap();
    for file in ["submitted.jsonl", "started.jsonl", "order.jsonl"] {
        std::fs::copy(forged.join(file), dir.join(file)).unwrap();
    }
    refused(&dir, None);
    // Now with the hashes in the manifest, too.
    std::fs::copy(forged.join("manifest.json"), dir.join("manifest.json")).unwrap();
    refused(&dir, None);
    // Now also signed, with another key.
    std::fs::copy(forged.join("manifest.sig"), dir.join("manifest.sig")).unwrap();
    refused(&dir, Some(&key.public()));
    Evidence::read(&dir, None).unwrap();
}

#[test]
fn every_byte_of_every_file_is_signed() {
    let (state, key) = written();
    let dir = state.path().join("evidence");
    let record: Vec<u8> = (0..=255).collect();
    std::fs::create_dir(dir.join("logs")).unwrap();
    std::fs::write(dir.join("order.record"), &record).unwrap();
    std::fs::write(dir.join("logs/worker.log"), "line\n").unwrap();
    let refused = |why: &str| {
        let error = format!("{:#}", Evidence::read(&dir, None).unwrap_err());
        assert!(error.contains("E-EVIDENCE-MANIFEST"), "{why}: {error}");
    };
    refused("two files too many");
    sign_again(&dir, &key).unwrap();
    Evidence::read(&dir, None).unwrap();
    for at in 0..record.len() {
        let mut changed = record.clone();
        changed[at] ^= 1;
        std::fs::write(dir.join("order.record"), &changed).unwrap();
        refused("a byte");
    }
    std::fs::remove_file(dir.join("order.record")).unwrap();
    refused("a file less");
    std::fs::write(dir.join("order.record"), &record).unwrap();
    Evidence::read(&dir, None).unwrap();
    std::fs::rename(dir.join("logs/worker.log"), dir.join("logs/other.log")).unwrap();
    refused("a file of another name");
    // Another key does not sign it again.
    let stranger = EvidenceKey::of(&state.path().join("stranger")).unwrap();
    sign_again(&dir, &stranger).unwrap_err();
}

#[test]
fn a_manifest_of_an_older_build_says_what_it_does_not_name() {
    let (state, key) = written();
    let dir = state.path().join("evidence");
    let path = dir.join("manifest.json");
    let mut manifest: Manifest = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    manifest.beside = None;
    let bytes = serde_json::to_vec(&manifest).unwrap();
    std::fs::write(dir.join("manifest.sig"), key.sign(&bytes)).unwrap();
    std::fs::write(&path, bytes).unwrap();
    std::fs::write(dir.join("order.record"), "record").unwrap();
    let (_, signature) = Evidence::read(&dir, Some(&key.public())).unwrap();
    assert_eq!(signature.unsigned, ["order.record"]);
}

/// Evidence with a second worker that died, and its ends.
fn died() -> Evidence {
    let mut evidence = good();
    let mut ends: Vec<WorkerEnd> = Vec::new();
    for line in &evidence.started {
        let known = ends
            .iter_mut()
            .find(|it| it.incarnation == line.incarnation);
        match known {
            Some(end) => end.position = line.position,
            None => ends.push(WorkerEnd {
                gpu: line.gpu,
                incarnation: line.incarnation.clone(),
                position: line.position,
                chain: String::new(),
                lost: line.incarnation == "w1",
                dead: false,
                fate: "here".into(),
                with: crate::record::With::Nothing,
                through: 0,
                from: 0,
                from_chain: String::new(),
            }),
        }
    }
    evidence.workers = ends;
    evidence
}

#[test]
fn a_worker_that_died_lacks_lines_only_of_positions_that_it_was_at() {
    let all = died();
    assert!(all.verify().is_clean(), "{:?}", all.verify());
    let of = |evidence: &Evidence, worker: &str| -> Vec<usize> {
        let lines = evidence.started.iter().enumerate();
        let theirs = lines.filter(|(_, line)| line.incarnation == worker);
        theirs.map(|(index, _)| index).collect()
    };
    // The line before the last is missing: the last line must mention it, and its worker must have
    // died.
    for (worker, holds) in [("w0", false), ("w1", true)] {
        let theirs = of(&all, worker);
        let [.., missing, last] = theirs[..] else {
            panic!("two lines of {worker}");
        };
        let mut less = all.clone();
        let position = less.started[missing].position;
        less.started[last].running = vec![position];
        let named = Evidence {
            started: [&less.started[..missing], &less.started[last..]].concat(),
            ..less.clone()
        };
        assert_eq!(named.verify().reordered == 0, holds, "{worker}");
        let mut unnamed = named;
        unnamed.started[missing].running.clear();
        assert_eq!(unnamed.verify().reordered, 1, "{worker}");
    }
}

#[test]
fn an_order_whose_beginning_was_cut_begins_behind_it() {
    let mut cut = died();
    let first = cut.order.iter().position(|line| line.incarnation == "w0");
    let line = cut.order.remove(first.expect("a line"));
    assert_eq!(line.position, 1);
    assert!(!cut.verify().is_clean(), "nobody said so");
    let end = cut.workers.iter_mut().find(|end| end.incarnation == "w0");
    end.expect("a worker").from = 1;
    assert!(cut.verify().is_clean(), "{:?}", cut.verify());
}
