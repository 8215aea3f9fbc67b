//! The cost of traces: three clusters take turns with the same program. One is not traced, one keeps one request in a
//! hundred, and one keeps all. Of the last one, how requests are covered and when they come.

use std::path::Path;

use admin::settings::Settings;
use anyhow::Result;
use serde_json::{Map, Value};
use warploom_cli::drop_in;

use super::goals::{COVER, EXPORT, OVERHEAD, OVERHEAD_ALL};
use super::program::LAUNCHES;
use super::side::{Kept, ONE_IN, Side, Turn};
use crate::bench::metric::{Measurement, Spec, median};

/// The metrics of these clusters.
const MEASURED: [&Spec; 4] = [&OVERHEAD, &OVERHEAD_ALL, &COVER, &EXPORT];
/// Least number of repetitions.
const PAIRS: usize = 11;
/// Requests of a turn, and of the one that warms up.
const REQUESTS: u64 = 10_000;
const WARMUP: u64 = 2_000;

/// Measures the wanted metrics.
///
/// # Errors
/// If a process does not start, or requests are lost.
pub(super) async fn overhead(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    let wanted = |spec: &Spec| wanted(spec.name);
    if !MEASURED.into_iter().any(wanted) {
        return Ok(());
    }
    let library = match drop_in::library(settings.given("run.library")) {
        Ok(library) => library,
        Err(error) => {
            let why = format!("{error:#}");
            let specs = MEASURED.into_iter().filter(|spec| wanted(spec));
            specs.for_each(|spec| tell(Measurement::missing(spec, &why)));
            return Ok(());
        }
    };
    let (some, all) = (wanted(&OVERHEAD), wanted(&OVERHEAD_ALL));
    let of_all = all || wanted(&COVER) || wanted(&EXPORT);
    let sides = [
        (Kept::None, some || all),
        (Kept::Some, some),
        (Kept::All, of_all),
    ];
    let sides = sides.into_iter().filter(|(_, is_wanted)| *is_wanted);
    let kept: Vec<Kept> = sides.map(|(kept, _)| kept).collect();
    let sides = measured(reps.max(PAIRS), settings, &library, &kept).await?;
    let of = |kept: Kept| sides.iter().find(|side| side.kept == kept);
    for (spec, traced) in [(&OVERHEAD, of(Kept::Some)), (&OVERHEAD_ALL, of(Kept::All))] {
        if let (true, Some(plain), Some(traced)) = (wanted(spec), of(Kept::None), traced) {
            tell(ratio(spec, plain, traced));
        }
    }
    let turns = of(Kept::All).map_or(&[] as &[Turn], |side| side.turns.as_slice());
    let requests: usize = turns.iter().map(|turn| turn.received).sum();
    for (spec, value) in [
        (&COVER, (|turn| turn.cover_p50) as fn(&Turn) -> Option<f64>),
        (&EXPORT, |turn| turn.export_s_p99),
    ] {
        if wanted(spec) {
            let values: Vec<f64> = turns.iter().filter_map(value).collect();
            tell(Measurement::new(spec, &values).with("requests", requests));
        }
    }
    Ok(())
}

/// Starts the sides, and lets them take turns. Every other repetition goes through them backwards.
async fn measured(
    reps: usize,
    settings: &Settings,
    library: &Path,
    kept: &[Kept],
) -> Result<Vec<Side>> {
    let mut sides = Vec::new();
    for kept in kept {
        sides.push(Side::start(settings, library, *kept).await?);
    }
    // For the profile, the names of kernels and the buffers.
    for side in &mut sides {
        side.turn(WARMUP).await?;
    }
    for rep in 1..=reps {
        eprintln!("requests with and without traces: repetition {rep} of {reps}");
        if rep % 2 == 0 {
            sides.reverse();
        }
        for side in &mut sides {
            let turn = side.turn(REQUESTS).await?;
            side.turns.push(turn);
        }
        if rep % 2 == 0 {
            sides.reverse();
        }
    }
    Ok(sides)
}

fn ratio(spec: &Spec, plain: &Side, traced: &Side) -> Measurement {
    let each = |side: &Side| -> Vec<f64> { side.turns.iter().map(Turn::us_per_launch).collect() };
    let (without, with) = (each(plain), each(traced));
    let pairs = with.iter().zip(&without);
    let ratios: Vec<f64> = pairs.map(|(traced, plain)| traced / plain).collect();
    let received: usize = traced.turns.iter().map(|turn| turn.received).sum();
    let requests = REQUESTS as f64 * traced.turns.len() as f64;
    let metric = Measurement::new(spec, &ratios)
        .against("not traced, us of processor time for a launch", &without)
        .with("us_per_launch", median(&with))
        .with("us_per_request_of_each", of_each(&traced.turns))
        .with("us_per_request_of_each_untraced", of_each(&plain.turns))
        .with("not_counted", "the collector, which is this benchmark")
        .with("kept_share", received as f64 / requests)
        .with("requests", REQUESTS)
        .with("launches_per_request", LAUNCHES);
    match traced.kept {
        Kept::Some => metric.with("one_kept_in", ONE_IN),
        _ => metric,
    }
}

/// Medians of the processor time of each process for a request, in microseconds.
fn of_each(turns: &[Turn]) -> Map<String, Value> {
    let names = turns.first().into_iter();
    let names = names.flat_map(|turn| &turn.spent_us).enumerate();
    let middle = |at: usize| {
        let each = turns.iter().filter_map(|turn| turn.spent_us.get(at));
        median(&each.map(|(_, spent)| *spent).collect::<Vec<_>>())
    };
    names
        .map(|(at, (name, _))| ((*name).to_owned(), middle(at).into()))
        .collect()
}
