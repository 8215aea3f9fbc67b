//! An earlier record is ordered today as it was then: `../golden/order-VERSION.record` holds 10,000
//! inputs of every kind over several terms. It is compressed with Zstandard; each input is its
//! length, 32 bit little-endian, and its MessagePack. `../golden/order-VERSION.txt` holds the
//! digest. A change of the rules makes this test fail: give it a new `ORDER_VERSION` and new files,
//! written by
//!
//! ```text
//! WARPLOOM_BLESS=1 cargo test -p scheduler-leader-core --test scheduler golden
//! ```
//!
//! `order-VERSION-later` is a second such pair, with kinds of inputs that came after the first was
//! made, which stays as it is.

mod play;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::{env, fs};

use bus_schemas::{Epoch, LeaderId, WIRE_VERSION};
use play::Kinds;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use scheduler_leader_core::replay::{Fate, ReplayError, Replayed, replay};
use scheduler_leader_core::{Input, ORDER_VERSION, Rows};
use serde::Serialize;

/// Kinds of inputs, by their recorded names.
const KINDS: [&str; 16] = [
    "Takeover",
    "WorkerSealed",
    "WorkerLost",
    "Draining",
    "Report",
    "SessionOpen",
    "SessionClose",
    "Intent",
    "Done",
    "Received",
    "Fault",
    "Settings",
    "TenantSet",
    "Profile",
    "Hold",
    "Tick",
];

/// Check for one kind of input.
type IsOne = fn(&Input) -> bool;

/// Kinds that the first record lacks.
const LATER: [(&str, IsOne); 2] = [
    ("a cordon", |input| matches!(input, Input::Cordon { .. })),
    ("a tenant that is no more", |input| {
        matches!(input, Input::TenantSet { settings: None, .. })
    }),
];

/// Number of inputs.
const INPUTS: usize = 10_000;
/// Inputs of one block of the record.
const BLOCK: usize = 200;

fn file(kinds: Kinds, extension: &str) -> PathBuf {
    let later = match kinds {
        Kinds::First => "",
        Kinds::Later => "-later",
    };
    let name = format!("order-{ORDER_VERSION}{later}.{extension}");
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// A block of the record, as docs/reference/wire.md describes it.
#[derive(Serialize)]
struct Block {
    v: u16,
    order_version: u32,
    epoch: Epoch,
    leader: LeaderId,
    number: u64,
    through: u64,
    gap: bool,
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
}

fn packed(inputs: &[Input]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for input in inputs {
        let input = rmp_serde::to_vec_named(input).unwrap();
        bytes.extend_from_slice(&(input.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&input);
    }
    bytes
}

fn unpacked(bytes: &[u8]) -> Vec<Input> {
    let (mut rest, mut inputs) = (bytes, Vec::new());
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let (input, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
        inputs.push(rmp_serde::from_slice(input).expect("an input of these rules"));
        rest = behind;
    }
    inputs
}

/// The inputs as a record: an epoch begins with each takeover.
fn record(inputs: &[Input], order_version: u32) -> Vec<(Epoch, u64, Vec<u8>)> {
    let mut blocks = Vec::new();
    let takes_over = |input: &Input| matches!(input, Input::Takeover(_));
    for term in inputs.chunk_by(|_, next| !takes_over(next)) {
        let Some(Input::Takeover(takeover)) = term.first() else {
            panic!("a term begins with its takeover");
        };
        let mut through = 0;
        for (number, part) in (1..).zip(term.chunks(BLOCK)) {
            through += part.len() as u64;
            let block = Block {
                v: WIRE_VERSION,
                order_version,
                epoch: takeover.epoch,
                leader: takeover.leader,
                number,
                through,
                gap: false,
                bytes: packed(part),
            };
            let bytes = rmp_serde::to_vec_named(&block).unwrap();
            blocks.push((takeover.epoch, number, bytes));
        }
    }
    blocks
}

fn ordered(inputs: &[Input]) -> Result<Replayed, ReplayError> {
    replay(&record(inputs, ORDER_VERSION), &[])
}

/// The golden inputs and their digest; written first, if that is requested.
fn golden(kinds: Kinds) -> (Vec<Input>, String) {
    if env::var_os("WARPLOOM_BLESS").is_some() && !file(kinds, "record").exists() {
        let inputs = play::inputs(INPUTS, kinds);
        let digest = ordered(&inputs).expect("it replays").digest;
        let bytes = compress_to_vec(packed(&inputs).as_slice(), CompressionLevel::Fastest);
        fs::write(file(kinds, "record"), bytes).unwrap();
        fs::write(file(kinds, "txt"), format!("{digest}\n")).unwrap();
    }
    let bytes = fs::read(file(kinds, "record")).expect("the golden record of these rules");
    assert!(bytes.len() < 300 << 10, "{} bytes", bytes.len());
    let mut packed = Vec::new();
    let read = StreamingDecoder::new(bytes.as_slice()).map(|mut it| it.read_to_end(&mut packed));
    read.expect("Zstandard").expect("all of it");
    let digest = fs::read_to_string(file(kinds, "txt")).expect("its digest");
    (unpacked(&packed), digest.trim().to_owned())
}

/// The name of an input's kind, as it is recorded.
fn kind(input: &Input) -> String {
    let debug = format!("{input:?}");
    let end = debug.find(|c: char| !c.is_alphanumeric());
    debug[..end.unwrap_or(debug.len())].to_owned()
}

/// The digest as defined when these records were made: of the workers that were not lost, with or
/// without accepted positions.
fn live(order: &Replayed) -> String {
    let live = order.tails.iter().filter(|tail| tail.fate != Fate::Lost);
    let mut tails: Vec<_> = live.map(|tail| tail.tail).collect();
    tails.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for tail in tails {
        hasher.update(&tail.gpu.to_le_bytes());
        hasher.update(&tail.position.to_le_bytes());
        hasher.update(&tail.chain.0);
    }
    hasher.finalize().to_hex().to_string()
}

/// Replays golden inputs; also returns the number of inputs of each kind.
fn as_it_was(kinds: Kinds) -> (Vec<Input>, Replayed, BTreeMap<String, usize>) {
    let (inputs, digest) = golden(kinds);
    assert_eq!(inputs.len(), INPUTS);
    let order = ordered(&inputs).expect("it replays");
    assert_eq!(live(&order), digest);
    assert_eq!((order.skipped, order.gaps), (0, 0));
    assert!(order.epochs >= 5 && order.positions.len() > 3_000);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for input in &inputs {
        *counts.entry(kind(input)).or_default() += 1;
    }
    (inputs, order, counts)
}

#[test]
fn the_golden_record_is_ordered_as_it_was() {
    let (_, _, counts) = as_it_was(Kinds::First);
    for kind in KINDS {
        let least = if kind == "WorkerLost" { 1 } else { 3 };
        assert!(
            counts.get(kind).is_some_and(|times| *times >= least),
            "{kind}: {counts:?}"
        );
    }
}

#[test]
fn inputs_that_came_later_are_ordered_as_they_were() {
    let (inputs, order, counts) = as_it_was(Kinds::Later);
    for kind in KINDS.into_iter().chain(["Cordon"]) {
        let least = if matches!(kind, "Takeover" | "Received") {
            5
        } else {
            10
        };
        assert!(
            counts.get(kind).is_some_and(|times| *times >= least),
            "{kind}: {counts:?}"
        );
    }
    let count = |is: IsOne| inputs.iter().filter(|input| is(input)).count();
    let cordoned = count(|input| matches!(input, Input::Cordon { cordoned: true, .. }));
    let left = count(|input| matches!(input, Input::WorkerLost { left: true, .. }));
    let gone = count(|input| matches!(input, Input::TenantSet { settings: None, .. }));
    let bound = count(|input| match input {
        Input::TenantSet { settings, .. } => {
            let mut settings = settings.iter();
            settings.any(|settings| !settings.groups.is_empty())
        }
        _ => false,
    });
    let all = [cordoned, left, gone, bound];
    assert!(all.iter().all(|count| *count >= 10), "{all:?}");
    // Most gone workers had a last chain to be compared with.
    let recorded = order.tails.iter().filter(|tail| tail.recorded > 0);
    assert!(recorded.count() > 10, "{:?}", order.tails);
}

#[test]
fn what_came_later_decides() {
    let (inputs, digest) = golden(Kinds::Later);
    let same = |order: &Replayed| live(order) == digest && order.skipped == 0;
    for (what, is) in LATER {
        let without: Vec<_> = inputs.iter().filter(|input| !is(input)).cloned().collect();
        assert!(without.len() < inputs.len());
        assert!(!ordered(&without).is_ok_and(|order| same(&order)), "{what}");
    }
    let mut weightless = inputs;
    for input in &mut weightless {
        if let Input::Report { report, .. } = input {
            report.weights = Rows::default();
        }
    }
    let without = ordered(&weightless);
    assert!(!without.is_ok_and(|order| same(&order)), "weights");
}

#[test]
fn the_digest_is_of_all_of_it() {
    let (inputs, digest) = golden(Kinds::First);
    let noticed = |at: usize| {
        let mut without = inputs.clone();
        without.remove(at);
        let same = |order: &Replayed| live(order) == digest && order.skipped == 0;
        ordered(&without).map_or(true, |order| !same(&order))
    };
    let announces = |at: &usize| matches!(inputs[*at], Input::Intent { .. });
    let parts = (0..12).map(|part| INPUTS * part / 12..INPUTS);
    let left_out = parts.map(|mut part| part.find(announces).expect("an intent"));
    let seen = left_out.filter(|at| noticed(*at)).count();
    // An intent may be of a session that is closed before its turn comes.
    assert!(seen >= 6, "{seen} of 12");
}

#[test]
fn a_record_of_other_rules_is_refused_by_name() {
    let (inputs, _) = golden(Kinds::First);
    let other = record(&inputs, ORDER_VERSION + 1);
    let error = replay(&other, &[]).expect_err("nobody guesses");
    let (got, have) = (ORDER_VERSION + 1, ORDER_VERSION);
    assert_eq!(
        error,
        ReplayError::Version {
            epoch: 1,
            got,
            have
        }
    );
    let said = error.to_string();
    assert!(said.contains(&format!("rules {got}")) && said.contains(&format!("rules {have}")));
}
