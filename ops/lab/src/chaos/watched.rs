//! The judgement of the observations on the bus and the programs' reports: changes of leader, lost workers,
//! and the programs' notice of them.

use std::time::{Duration, Instant};

use super::causes::{Change, changes, excused, false_losses, false_takeovers};
use super::metrics::{self, one};
use super::strikes::Strikes;
use super::watch::Span;
use super::word::{Told, told};
use crate::bench::Measurement;
use bus_schemas::Incarnation;

/// Maximum number of epochs and workers that are named.
const NAMED: usize = 20;

/// Findings.
pub(super) struct Watched {
    /// Changes of leaders.
    changes: usize,
    /// Changes without a cause.
    false_takeovers: Vec<Change>,
    /// Fraction of the time in which any change would have a cause.
    excused: f64,
    /// Workers that were declared lost.
    lost: usize,
    /// Lost workers without a cause.
    false_losses: Vec<Incarnation>,
    /// Sessions of the workers lost without a cause.
    sessions_lost: usize,
    told: Told,
    /// The longest time in which no leader was heard.
    leaderless: Duration,
}

impl Strikes {
    /// Judges the observations until now. Programs have ended, and no role has been asked to leave.
    pub(super) fn watched(&self) -> Watched {
        let (heard, now) = (self.watch.heard(), Instant::now());
        let servers = self.cluster.broker.servers().len();
        let (unannounced, all) = changes(&heard);
        let programs = self.programs.iter().enumerate();
        let lived: Vec<_> = programs
            .flat_map(|(index, program)| program.lived(index))
            .collect();
        let false_losses = false_losses(&heard, &self.acts, servers);
        let theirs = lived.iter().filter(|session| {
            let lost = heard.lost.get(&session.worker);
            let open = lost.is_some_and(|at| session.word.is_none_or(|word| word > *at));
            open && false_losses.contains(&session.worker)
        });
        let whole = Span {
            from: self.began,
            until: now,
        };
        let leaderless = heard.leaderless_until(now).into_iter();
        Watched {
            changes: all,
            false_takeovers: false_takeovers(&unannounced, &self.acts, servers),
            excused: excused(whole, &self.acts, servers),
            lost: heard.lost.len(),
            sessions_lost: theirs.count(),
            false_losses,
            told: told(&lived, &heard, &self.acts, now),
            leaderless: leaderless
                .map(|span| span.until.saturating_duration_since(span.from))
                .max()
                .unwrap_or_default(),
        }
    }
}

impl Watched {
    /// The findings as metrics.
    pub(super) fn metrics(&self) -> Vec<Measurement> {
        let ms = |time: Duration| (time.as_secs_f64() * 1e3).round();
        let epochs = self.false_takeovers.iter().map(|it| it.epoch);
        let epochs: Vec<_> = epochs.take(NAMED).collect();
        let lost = self.false_losses.iter().map(ToString::to_string);
        let lost: Vec<_> = lost.take(NAMED).collect();
        let late = self.told.late.iter().map(|(worker, lost, took)| {
            let lost = lost.map_or_else(|| "never".to_owned(), |lost| ms(lost).to_string());
            format!("{worker} lost {lost} told {}", ms(*took))
        });
        let late: Vec<_> = late.take(NAMED).collect();
        vec![
            one(&metrics::UNTOLD, self.told.untold as f64)
                .with("workers", late)
                .with("idle", self.told.untold_idle)
                .with("of", self.told.sessions)
                .with("of_idle", self.told.idle)
                .with("longest_ms", ms(self.told.longest)),
            one(&metrics::FALSE_TAKEOVERS, self.false_takeovers.len() as f64)
                .with("of", self.changes)
                .with("epochs", epochs)
                .with("excused_share", (self.excused * 1e3).round() / 1e3)
                .with("leaderless_ms", ms(self.leaderless)),
            one(&metrics::FALSE_LOSSES, self.false_losses.len() as f64)
                .with("of", self.lost)
                .with("sessions", self.sessions_lost)
                .with("workers", lost),
        ]
    }
}
