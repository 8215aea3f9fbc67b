//! Many seeds, each a whole cluster with its own troubles.

use std::sync::atomic::{AtomicUsize, Ordering};

use sim_faults::coverage::Part;
use sim_faults::{Counts, Options, RunReport, Scene, Tracing, Troubles, run};

/// Number of seeds in a test run; `WARPLOOM_SEEDS` raises it.
fn seeds() -> u64 {
    let wanted = std::env::var("WARPLOOM_SEEDS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(200)
}

fn play(seeds: std::ops::RangeInclusive<u64>, options: Options) -> Vec<RunReport> {
    play_all(&seeds.collect::<Vec<_>>(), options)
}

fn play_all(seeds: &[u64], options: Options) -> Vec<RunReport> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = &next;
    std::thread::scope(|scope| {
        let play = move || {
            let mut reports = Vec::new();
            while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                match run(*seed, &options) {
                    Ok(report) => reports.push(report),
                    Err(failure) => {
                        failure.tail.iter().for_each(|line| eprintln!("{line}"));
                        panic!("{failure}");
                    }
                }
            }
            reports
        };
        let playing: Vec<_> = (0..threads).map(|_| scope.spawn(play)).collect();
        playing
            .into_iter()
            .flat_map(|thread| thread.join().expect("a seed failed"))
            .collect()
    })
}

fn total(reports: &[RunReport], of: impl Fn(&Counts) -> u64) -> u64 {
    reports.iter().map(|report| of(&report.counts)).sum()
}

#[test]
fn every_invariant_holds_over_many_seeds() {
    let reports = play(1..=seeds(), Options::default());
    // The seeds are worth something only if they meet what they are meant to meet.
    assert!(total(&reports, |r| r.ops) > 10_000);
    assert!(total(&reports, |r| r.ended) > 100);
    assert!(total(&reports, |r| r.failed) > 10);
    assert!(total(&reports, |r| r.voids) > 10);
    assert!(total(&reports, |r| r.adopted) > 0);
    assert!(total(&reports, |r| r.adopted_sessions) > 0);
    assert!(total(&reports, |r| r.gone) > 10);
    assert!(total(&reports, |r| r.replayed) > 1_000);
    assert!(total(&reports, |r| r.gaps) > 0);
    assert!(total(&reports, |r| r.unrecorded) > 0);
    assert!(total(&reports, |r| r.stopped) > 0);
    assert!(total(&reports, |r| r.gave_up) > 0);
    assert!(total(&reports, |r| r.renewed) > 20);
    assert!(total(&reports, |r| r.rivals) > 0);
    assert!(total(&reports, |r| r.denied) > 0);
    assert!(total(&reports, |r| r.promised) > 1_000);
    assert!(total(&reports, |r| r.offered) > 100);
    assert!(total(&reports, |r| r.unsent) > 20);
    assert!(total(&reports, |r| r.exchanged) > 100);
    assert!(total(&reports, |r| r.imported) > 20);
    assert!(total(&reports, |r| r.peeked) > 20);
    assert!(total(&reports, |r| r.swaps) > 0);
    assert!(total(&reports, |r| r.moved) > 0);
    assert!(total(&reports, |r| r.several) > 10);
    assert!(total(&reports, |r| r.declined) > 10);
    assert!(total(&reports, |r| r.halved) > 0);
    assert!(total(&reports, |r| r.drained) > 30);
    assert!(total(&reports, |r| r.dismissed) > 10);
    assert!(reports.iter().filter(|r| r.counts.epochs > 1).count() > 50);
    assert!(reports.iter().filter(|r| r.counts.faults == 0).count() > 5);
}

#[test]
fn shares_and_priorities_hold_exactly_where_nothing_goes_wrong() {
    let options = Options {
        troubles: Some(Troubles::NONE),
        ..Options::default()
    };
    let reports = play(10_001..=10_100, options);
    assert!(
        reports
            .iter()
            .all(|r| r.counts.epochs == 1 && r.counts.adopted == 0)
    );
    let compared = total(&reports, |r| r.compared);
    assert!(compared > 500, "{compared} comparisons");
}

#[test]
fn nobody_suffers_by_drains_and_nobody_is_placed_on_a_drained_worker() {
    let troubles = |crashes| Troubles {
        drains: true,
        crashes,
        ..Troubles::NONE
    };
    let options = |crashes| Options {
        troubles: Some(troubles(crashes)),
        ..Options::default()
    };
    let calm = play(20_001..=20_060, options(false));
    // Sessions fail here only on purpose; that is checked, as there is no trouble.
    assert!(total(&calm, |r| r.ended) > 100);
    assert!(calm.iter().all(|r| r.counts.epochs == 1));
    assert!(total(&calm, |r| r.drained) > 60);
    assert!(total(&calm, |r| r.dismissed) > 30);
    // With dying leaders, their successors have to know.
    let crashes = play(20_061..=20_120, options(true));
    let met = |report: &&RunReport| report.counts.epochs > 1 && report.counts.drained > 0;
    let met = crashes.iter().filter(met).count();
    assert!(met > 20, "{met}");
}

#[test]
fn slow_nodes_keep_their_places_and_their_sessions() {
    let options = Options {
        troubles: Some(Troubles {
            slowness: true,
            ..Troubles::NONE
        }),
        ..Options::default()
    };
    let reports = play(40_001..=40_060, options);
    // Four of five scenes have no delay that is too long.
    assert!(total(&reports, |r| r.faults) > 60);
    assert!(
        reports
            .iter()
            .filter(|r| r.steady && r.counts.faults > 0)
            .count()
            > 30
    );
    assert!(reports.iter().all(|r| !r.steady || r.counts.epochs == 1));
}

#[test]
fn nobody_suffers_by_a_hostile_tenant() {
    let troubles = |crashes| Troubles {
        hostile: true,
        crashes,
        ..Troubles::NONE
    };
    let options = |crashes| Options {
        troubles: Some(troubles(crashes)),
        ..Options::default()
    };
    // Other tenants' sessions fail here only on purpose, and no leader is followed by another.
    let calm = play(50_001..=50_060, options(false));
    assert!(total(&calm, |r| r.ended) > 100);
    assert!(calm.iter().all(|r| r.steady && r.counts.epochs == 1));
    assert!(calm.iter().filter(|r| r.counts.faults > 0).count() > 30);
    assert!(total(&calm, |r| r.harm) > 3000);
    play(50_061..=50_080, options(true));
}

#[test]
fn of_several_devices_all_are_had_or_none_where_a_worker_dies_between() {
    let options = Options {
        troubles: Some(Troubles {
            partitions: true,
            crashes: true,
            ..Troubles::NONE
        }),
        ..Options::default()
    };
    // A session that began for a failed request is closed: its memory is free in the end.
    let reports = play(30_001..=30_200, options);
    let halved = total(&reports, |r| r.halved);
    let met = |report: &RunReport| {
        let coverage = &report.coverage;
        coverage.count(Part::Request, "some begun", "crash")
    };
    let met: u64 = reports.iter().map(met).sum();
    assert!(halved > 10 && met > 10, "{halved} halved, {met} met");
}

/// In these seeds an order once had a hole: a leader left inputs unrecorded while the openings of short
/// sessions closed its standing grants.
#[test]
fn standing_grants_that_end_around_openings_are_told_also_where_the_store_is_full() {
    let found = [205, 208, 366];
    let stands = |seed: &u64| {
        let scene = Scene::draw(*seed, None);
        let small = scene.settings.record_buffer < 256 << 10;
        scene.settings.standing && small && !found.contains(seed)
    };
    let more = (201..).filter(stands).take(30);
    let seeds: Vec<u64> = found.into_iter().chain(more).collect();
    let reports = play_all(&seeds, Options::default());
    assert!(total(&reports, |r| r.gaps) > 0);
    assert!(total(&reports, |r| r.unrecorded) > 0);
    assert!(total(&reports, |r| r.adopted) > 0);
}

#[test]
fn a_seed_has_one_history() {
    let options = Options {
        tracing: Tracing::Off,
        ..Options::default()
    };
    for seed in 1..=6 {
        let first = run(seed, &options).map_err(|failure| failure.to_string());
        let second = run(seed, &options).map_err(|failure| failure.to_string());
        assert_eq!(first, second);
    }
}
