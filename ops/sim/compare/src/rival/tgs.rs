//! TGS-like rate control. One job is in production, the others are opportunistic: their kernels are
//! admitted at a rate. The rate is raised step by step while the production job's kernels run as fast as at
//! their best, and cut when they do not. The device's own queues know no priority.
//!
//! Source: Wu, Zhang, Bai, Liu, Jin: Transparent GPU Sharing in Container Clouds for Deep Learning
//! Workloads, NSDI 2023. Its published figure is from Zhao, Jayarajan, Pekhimenko: Tally, ASPLOS 2025.
//! Steps, period and tolerance are not published for such jobs, so those here are ours. The tolerance is
//! chosen so that the tail is near the published one and the rest of the device is used.

use super::api::{Rival, Streams};
use crate::device::{Device, Launch};
use crate::scenario::Scenario;
use sim_cluster::{MILLI, Nanos};

/// Time between two looks at the production job's rate.
const PERIOD: Nanos = 20 * MILLI;
/// Step of the rate, the fraction of device time that opportunistic kernels may take.
const STEP: f64 = 0.02;
const CUT: f64 = 0.7;
const LEAST: f64 = 0.02;
/// Slowdown relative to the best above which the rate is cut.
const TOLERANCE: f64 = 0.35;
/// Maximum unused time that may be taken later.
const BURST: f64 = 2.0 * MILLI as f64;

pub(super) struct Tgs {
    streams: Streams,
    gap: Nanos,
    rate: f64,
    /// Time that opportunistic kernels may take, and the time at which that was computed.
    tokens: f64,
    at: Nanos,
    looks_at: Nanos,
    /// Work of the production job in this period, and the time in which it had any.
    done: u64,
    busy: Nanos,
    outstanding: usize,
    busy_since: Nanos,
    best: f64,
}

impl Tgs {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            streams: Streams::new(scenario),
            gap: scenario.gap,
            rate: LEAST,
            tokens: 0.0,
            at: 0,
            looks_at: PERIOD,
            done: 0,
            busy: 0,
            outstanding: 0,
            busy_since: 0,
            best: 0.0,
        }
    }

    fn pass(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.at) as f64;
        self.tokens = (self.tokens + passed * self.rate).min(BURST);
        self.at = now;
        if now >= self.looks_at {
            self.look(now);
            self.looks_at = now + PERIOD;
        }
    }

    fn look(&mut self, now: Nanos) {
        if self.outstanding > 0 {
            self.busy += now - self.busy_since;
            self.busy_since = now;
        }
        let rate = self.done as f64 / self.busy.max(1) as f64;
        if self.busy >= MILLI {
            self.best = self.best.max(rate.min(1.0));
        }
        let slowed = self.busy >= MILLI && rate < self.best * (1.0 - TOLERANCE);
        self.rate = if slowed {
            (self.rate * CUT).max(LEAST)
        } else {
            (self.rate + STEP).min(1.0)
        };
        (self.done, self.busy) = (0, 0);
    }
}

impl Rival for Tgs {
    fn launched(&mut self, now: Nanos, launch: Launch) {
        self.pass(now);
        if self.streams.is_urgent(launch.tenant) {
            if self.outstanding == 0 {
                self.busy_since = now;
            }
            self.outstanding += 1;
        }
        self.streams.push(launch);
    }

    fn ended(&mut self, now: Nanos, launch: &Launch, _began: Nanos) {
        self.pass(now);
        if self.streams.is_urgent(launch.tenant) {
            self.done += launch.kernel.ns + self.gap;
            self.outstanding -= 1;
            if self.outstanding == 0 {
                self.busy += now - self.busy_since;
            }
        }
    }

    fn next(&mut self, now: Nanos, device: &Device) -> Option<Launch> {
        self.pass(now);
        let may = |launch: &Launch| self.streams.is_urgent(launch.tenant) || self.tokens > 0.0;
        let tenant = self.streams.in_turn(device, may)?;
        let launch = self.streams.take(tenant)?;
        if !self.streams.is_urgent(launch.tenant) {
            self.tokens -= (launch.kernel.ns + self.gap) as f64;
        }
        Some(launch)
    }

    fn wake(&self) -> Option<Nanos> {
        let queued =
            |(queue, urgent): (&std::collections::VecDeque<_>, &bool)| !urgent && !queue.is_empty();
        let mut queues = self.streams.queues.iter().zip(&self.streams.urgent);
        if !queues.any(queued) || self.tokens > 0.0 {
            return None;
        }
        // After the next look the rate may be another.
        let enough = self.at + (-self.tokens / self.rate) as Nanos + 1;
        Some(enough.min(self.looks_at.max(self.at + 1)))
    }
}
