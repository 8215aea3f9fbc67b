//! Yesterday's record is ordered today as it was: `../golden/order-VERSION.record` holds 10,000
//! inputs of every kind over several reigns (Zstandard; each input its length, 32 bit
//! little-endian, and its MessagePack), `../golden/order-VERSION.txt` the digest. A change of
//! the rules makes this fail: give it a new `ORDER_VERSION` and a new pair of files, written by
//!
//! ```text
//! WARPLOOM_GOLDEN=write cargo test -p scheduler-leader-core --test order golden
//! ```

mod play;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::{env, fs};

use bus_schemas::{Epoch, LeaderId, WIRE_VERSION};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use scheduler_leader_core::replay::{ReplayError, Replayed, replay};
use scheduler_leader_core::{Input, ORDER_VERSION};
use serde::Serialize;

/// How many there are.
const INPUTS: usize = 10_000;
/// Inputs of one block of the record.
const BLOCK: usize = 200;

fn file(extension: &str) -> PathBuf {
    let name = format!("order-{ORDER_VERSION}.{extension}");
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// A block of the record, as docs/wire.md describes it.
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
    for reign in inputs.chunk_by(|_, next| !takes_over(next)) {
        let Some(Input::Takeover(takeover)) = reign.first() else {
            panic!("a reign begins with its takeover");
        };
        let mut through = 0;
        for (number, part) in (1..).zip(reign.chunks(BLOCK)) {
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

/// The golden inputs and their digest; written first, if that is asked for.
fn golden() -> (Vec<Input>, String) {
    if env::var("WARPLOOM_GOLDEN").as_deref() == Ok("write") {
        let inputs = play::inputs(INPUTS);
        let digest = ordered(&inputs).expect("it replays").digest;
        let bytes = compress_to_vec(packed(&inputs).as_slice(), CompressionLevel::Fastest);
        fs::write(file("record"), bytes).unwrap();
        fs::write(file("txt"), format!("{digest}\n")).unwrap();
    }
    let bytes = fs::read(file("record")).expect("the golden record of these rules");
    assert!(bytes.len() < 300 << 10, "{} bytes", bytes.len());
    let mut packed = Vec::new();
    let read = StreamingDecoder::new(bytes.as_slice()).map(|mut it| it.read_to_end(&mut packed));
    read.expect("Zstandard").expect("all of it");
    let digest = fs::read_to_string(file("txt")).expect("its digest");
    (unpacked(&packed), digest.trim().to_owned())
}

/// The name of an input's kind, as it is recorded.
fn kind(input: &Input) -> String {
    let debug = format!("{input:?}");
    let end = debug.find(|c: char| !c.is_alphanumeric());
    debug[..end.unwrap_or(debug.len())].to_owned()
}

#[test]
fn the_golden_record_is_ordered_as_it_was() {
    let (inputs, digest) = golden();
    assert_eq!(inputs.len(), INPUTS);
    let order = ordered(&inputs).expect("it replays");
    assert_eq!(order.digest.to_string(), digest);
    assert_eq!((order.skipped, order.gaps), (0, 0));
    assert!(order.epochs >= 5 && order.positions.len() > 3_000);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for input in &inputs {
        *kinds.entry(kind(input)).or_default() += 1;
    }
    for kind in [
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
    ] {
        let least = if kind == "WorkerLost" { 1 } else { 3 };
        assert!(
            kinds.get(kind).is_some_and(|times| *times >= least),
            "{kind}: {kinds:?}"
        );
    }
}

#[test]
fn the_digest_is_of_all_of_it() {
    let (inputs, digest) = golden();
    let noticed = |at: usize| {
        let mut without = inputs.clone();
        without.remove(at);
        let same = |order: &Replayed| order.digest.to_string() == digest && order.skipped == 0;
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
    let (inputs, _) = golden();
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
